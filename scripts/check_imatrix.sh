#!/usr/bin/env bash
# Holds our importance matrices and our weighted encoders against llama.cpp's tools: llama-imatrix reads both file
# forms, and llama-quantize, given our matrix and Nano decoded to F32, must make the same values of every routed
# expert as ds4-quantize does. Prints PASS or FAIL; docs/independent_readers.md has the results. Fetches llama.cpp
# at first use (peer/peer.sh).
#
#   scripts/check_imatrix.sh [--bin DIR]      --bin: where ds4, ds4-quantize, dump_tensors are, build/release/bin
#
# Exit: 0 all equal, 1 some difference, 2 a program is missing or the command line is wrong.
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
peer=$root/scripts/peer
bin=$root/build/release/bin
if [ "${1:-}" = --bin ]; then bin=${2:?--bin DIR}; shift 2; fi
[ $# = 0 ] || { sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
for program in ds4 ds4-quantize dump_tensors; do
  [ -x "$bin/$program" ] || { echo "check_imatrix: no $bin/$program: make build, or give --bin" >&2; exit 2; }
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
quietly() { "$@" > "$tmp/log" 2>&1 || { tail -n 5 "$tmp/log" >&2; echo "FAIL $1"; exit 1; }; }
"$peer/peer.sh" versions
quietly "$bin/ds4-quantize" --hf "$root/models/nano" --recipe exact --out "$tmp/exact.gguf"
quietly "$peer/peer.sh" python "$peer/peer_file.py" "$tmp/exact.gguf" "$tmp/f32.gguf" --f32
head -c 12000 "$root/models/nano/held_text.txt" > "$tmp/text"
for form in dat gguf; do
  quietly "$bin/ds4" -m "$tmp/exact.gguf" --imatrix-dataset "$tmp/text" --imatrix-out "$tmp/imatrix.$form"
  quietly "$peer/peer.sh" llama llama-imatrix -m "$tmp/f32.gguf" --in-file "$tmp/imatrix.$form" --show-statistics
  if grep -aqE '^ +7 +\|' "$tmp/log"; then
    echo "PASS llama-imatrix reads our .$form and has statistics of all 8 layers"
  else
    echo "FAIL llama-imatrix and our .$form"; failed=1
  fi
done
for types in "q2 iq2_xxs q2_k" "q4 q4_k q4_k"; do
  read -r recipe gate down <<< "$types"
  quietly "$bin/ds4-quantize" --hf "$root/models/nano" --no-mtp --recipe "$recipe" --imatrix "$tmp/imatrix.dat" \
    --out "$tmp/ours.gguf" --overwrite
  quietly "$peer/peer.sh" llama llama-quantize --imatrix "$tmp/imatrix.dat" --tensor-type "ffn_gate_exps=$gate" \
    --tensor-type "ffn_up_exps=$gate" --tensor-type "ffn_down_exps=$down" "$tmp/f32.gguf" "$tmp/theirs.gguf" q8_0 2
  for side in ours theirs; do
    "$bin/dump_tensors" "$tmp/$side.gguf" | grep -a '"tensor":"[^"]*_exps' |
      sed 's/"offset":[0-9]*,//' | sort > "$tmp/$side"
  done
  count=$(wc -l < "$tmp/ours")
  if [ "$count" = 24 ] && cmp -s "$tmp/ours" "$tmp/theirs"; then
    echo "PASS $recipe: $count expert tensors of llama-quantize and of ds4-quantize decode to the same bits"
  else
    echo "FAIL $recipe: $(comm -3 "$tmp/ours" "$tmp/theirs" | wc -l) lines differ"; failed=1
  fi
done
exit $failed
