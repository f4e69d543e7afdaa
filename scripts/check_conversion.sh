#!/usr/bin/env bash
# Converts models/nano with ds4-quantize and with a converter of its own written in Python on gguf-py
# (peer/convert_checkpoint.py), and compares: every value of recipe exact against an F32 file, every key, type
# and value of recipe q8_0 against a Q8_0 file. Then ds4 on the exact file against llama.cpp on the F32 file.
# docs/independent_readers.md has the results.
#
#   scripts/check_conversion.sh [--bin DIR] [--longest N]
#     --bin      where ds4-quantize, dump_tensors and dump_logits are, default build/release/bin
#     --longest  leave out reference prompts of more tokens, default 1025; 0: leave out llama.cpp
#
# Exit: 0 all equal and within the limits, 1 not, 2 a program is missing or the command line is wrong.
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
peer=$root/scripts/peer
checkpoint=$root/models/nano
bin=$root/build/release/bin
longest=1025
while [[ ${1:-} == --* ]]; do
  case $1 in
    --bin) bin=${2:?--bin DIR} ;;
    --longest) longest=${2:?--longest N} ;;
    *) break ;;
  esac
  shift 2
done
[ $# = 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
for program in ds4-quantize dump_tensors dump_logits; do
  [ -x "$bin/$program" ] || { echo "check_conversion: no $bin/$program: make build, or give --bin" >&2; exit 2; }
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
"$peer/peer.sh" versions
for pair in exact:f32 q8_0:q8_0; do
  recipe=${pair%:*} type=${pair#*:}
  "$bin/ds4-quantize" --hf "$checkpoint" --out "$tmp/$recipe.gguf" --recipe "$recipe" 2> "$tmp/log" ||
    { cat "$tmp/log" >&2; exit 1; }
  "$peer/peer.sh" python "$peer/convert_checkpoint.py" "$checkpoint" "$tmp/peer.gguf" "$type" --draft
  "$bin/dump_tensors" "$tmp/$recipe.gguf" > "$tmp/ours"
  "$peer/peer.sh" python "$peer/dump_tensors.py" "$tmp/peer.gguf" > "$tmp/theirs"
  "$peer/peer.sh" python "$peer/compare_dumps.py" "recipe $recipe against a second conversion to $type" \
    "$tmp/ours" "$tmp/theirs" --same-model || failed=1
done
if [ "$longest" != 0 ]; then
  "$peer/peer.sh" python "$peer/convert_checkpoint.py" "$checkpoint" "$tmp/peer.gguf" f32
  "$peer/peer.sh" python "$peer/llama_logits.py" "$tmp/peer.gguf" "$checkpoint" "$tmp/theirs" --longest "$longest"
  "$bin/dump_logits" -m "$tmp/exact.gguf" --ids "$tmp/theirs.ids" --out "$tmp/ours.f32"
  # The limits are those of check_llama.sh for files in F32.
  "$peer/peer.sh" python "$peer/compare_logits.py" "recipe exact against llama.cpp on the second conversion" \
    "$tmp/ours.f32" "$tmp/theirs.f32" "$tmp/theirs.names" --hf "$checkpoint" \
    --limit-l2 1e-4 --limit-median 5e-6 || failed=1
fi
exit $failed
