#!/usr/bin/env bash
# Everything that is checked before a change lands, step by step, with the time of each. Stops at the first
# failure. Ends by repeating the closing lines of every test run.
#
#   scripts/ci.sh [--after-test]      --after-test: `make test` has just passed, begin with the step after it
#
# Logs: build/ci/STEP.log
set -euo pipefail

cd "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")"
# shellcheck source=scripts/steps.sh
. scripts/steps.sh

# Configures and builds a preset with Nano's files from the release build: converting them again, unoptimised or under
# a sanitizer, would take longer than the tests. (`set -e` is off in a step's functions, so they chain.)
built() {  # built PRESET TARGET
  make --no-print-directory configure PRESET="$1" &&
    cmake "build/$1" -DDS4_NANO_FROM="$PWD/build/release/nano" &&
    cmake --build "build/$1" -j "$(nproc)" --target "$2"
}
# The test programs that carry a label: TARGET is LABEL_tests.
labelled() { built "$1" "$2_tests" && ctest --preset "$1"; }
asan_suite() { built asan all && ctest --preset asan; }
# 64-bit Arm under QEMU, with what .deps/arm64 then holds: packages that nothing else needs.
arm64() { scripts/deps.sh --arm64 && labelled arm64 arm64 && same_bits_on_arm64; }
same_bits_on_arm64() {
  local qemu
  if ! grep -qw avx2 /proc/cpuinfo; then echo "this machine has no AVX2, whose bits NEON's should be"; return 0; fi
  qemu=$(scripts/tool.sh aarch64-linux-gnu-g++ qemu-aarch64) &&
    build/release/bin/nano_bits > "$logs/bits-here.txt" &&
    "$qemu" build/arm64/bin/nano_bits > "$logs/bits-arm64.txt" &&
    diff "$logs/bits-here.txt" "$logs/bits-arm64.txt" && echo "Nano's logits: NEON gives this machine's bits"
}

steps_begin ci
if [ "${1:-}" != --after-test ]; then step test make --no-print-directory test; fi
step format make --no-print-directory format-check
step longer-tests ctest --preset release-ci  # labelled ci: too long for make test
step fuzz scripts/fuzz.sh --seconds 20
step unoptimised labelled unoptimised unoptimised  # results must not come from the optimizer
step arm64 arm64
step tsan labelled tsan tsan
step asan asan_suite
steps_end

for log in "$logs"/{asan,tsan,arm64,unoptimised,fuzz,longer-tests,test}.log; do
  if [ -f "$log" ]; then
    echo "=== $(basename "$log" .log)"
    grep -E 'tests passed|tests failed|Total Test time|No tests were found|findings$' "$log" || true
  fi
done
