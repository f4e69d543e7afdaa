#!/usr/bin/env bash
# Long runs, on demand: hours, on whatever the machine has to spare. A failed step does not stop the others. What
# came out is written into docs/soak.md by hand: it says what the run was for.
#
#   scripts/soak.sh [STEP..]      default: all of them, see the list at the end
#
# Logs: build/soak/STEP.log
set -euo pipefail

cd "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")"
# shellcheck source=scripts/steps.sh
. scripts/steps.sh
keep_going=1

# Half an hour for each parser of untrusted bytes.
fuzz() { scripts/fuzz.sh --seconds 1800 "$1"; }

# Half an hour of random sessions, each compared with a cold run after every operation.
sessions() {
  make --no-print-directory configure &&
    cmake --build build/release -j "$(nproc)" --target session_soak &&
    build/release/bin/session_soak 1800
}

# A new step: its name here, and what it runs in `run`.
steps=(sessions fuzz-gguf fuzz-safetensors fuzz-tokenizer fuzz-chat)
run() {
  case $1 in
    sessions) sessions ;;
    fuzz-*) fuzz "${1#fuzz-}" ;;
    *) echo "soak: expected steps of ${steps[*]}, found $1" >&2; return 2 ;;
  esac
}

if [ $# = 0 ]; then set -- "${steps[@]}"; fi
steps_begin soak
for name in "$@"; do step "$name" run "$name"; done
steps_end
