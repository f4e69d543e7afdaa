#!/usr/bin/env bash
# Runs llama.cpp on GGUF files of ds4-quantize and holds its next-token distributions against those of ds4
# (profile hf32, backend cpu): reference prompts of models/nano, and greedy answers step by step. Each file is
# run twice: as it is, where llama.cpp rounds activations to int8, f16 or bf16 before a weight of such a type;
# and with every tensor decoded to F32, where only the order of sums differs and the agreement must be close.
# Texts of the tree are tokenized by both with the first file's vocabulary. docs/independent_readers.md has the
# results. Fetches llama.cpp at first use (peer/peer.sh).
#
#   scripts/check_llama.sh [--bin DIR] [--longest N] [--as-shipped] FILE.gguf..
#     --bin         where our ds4 and dump_logits are, default build/release/bin
#     --longest     leave out reference prompts of more tokens, default 1025
#     --as-shipped  llama.cpp with its own KV format (f16) and attention kernel, and only the file as it is
#
# Exit: 0 all within the limits, 1 not, 2 a program is missing or the command line is wrong.
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
peer=$root/scripts/peer
checkpoint=$root/models/nano
bin=$root/build/release/bin
longest=1025
shipped=()
while [[ ${1:-} == --* ]]; do
  case $1 in
    --bin) bin=${2:?--bin DIR}; shift ;;
    --longest) longest=${2:?--longest N}; shift ;;
    --as-shipped) shipped=(--as-shipped) ;;
    *) set --; break ;;
  esac
  shift
done
[ $# -gt 0 ] || { sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
for program in ds4 dump_logits; do
  [ -x "$bin/$program" ] || { echo "check_llama: no $bin/$program: make build, or give --bin" >&2; exit 2; }
done
texts=(models/nano/held_text.txt models/nano/cases.jsonl README.md
       tests/data/tokenizer/pretokenizer_cases.jsonl tests/data/tokenizer/reference_encodings.jsonl)

# Limits, and why. Decoded to F32: sums of some thousand products in another order, and llama.cpp's RoPE angles,
# which lose digits as positions grow; worst seen 6e-5, at 6000 tokens, and one attention sink that is 1 % off
# passes neither limit. As it is: int8 activations move logits by per cents, and where two experts are nearly tied
# the other one may be taken; llama.cpp differs from itself on the decoded file as much. Worst seen 7.7e-2.
limit_f32=(--limit-l2 1e-4 --limit-median 5e-6)
limit_int8=(--limit-kl 0.2 --limit-median 0.05)

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

compare() {  # compare LABEL PEER_FILE OUR_FILE ARGS..
  local label=$1 theirs=$2 ours=$3; shift 3
  if ! "$peer/peer.sh" python "$peer/llama_logits.py" "$theirs" "$checkpoint" "$tmp/theirs" --longest "$longest" \
      "${shipped[@]}"; then
    echo "FAIL $label: llama.cpp does not run it"
    return 1
  fi
  "$bin/dump_logits" -m "$ours" --ids "$tmp/theirs.ids" --out "$tmp/ours.f32"
  "$peer/peer.sh" python "$peer/compare_logits.py" "$label" "$tmp/ours.f32" "$tmp/theirs.f32" "$tmp/theirs.names" \
    --hf "$checkpoint" "$@"
}

same_tokens() {  # same_tokens PEER_FILE OUR_FILE: control strings are recognised, nothing is added
  local text count rc=0
  for text in "${texts[@]}"; do
    "$bin/ds4" -m "$2" --dump-tokens --prompt-file "$root/$text" | awk '{print $1}' > "$tmp/ours"
    "$peer/peer.sh" llama llama-tokenize -m "$1" -f "$root/$text" --ids --no-bos --no-escape --log-disable \
      2> "$tmp/log" | tr -d '[] ' | tr ',' '\n' > "$tmp/theirs"
    count=$(wc -l < "$tmp/theirs")
    if [ "$count" -gt 0 ] && cmp -s "$tmp/ours" "$tmp/theirs"; then
      echo "PASS tokens of $text: $count"
    else
      echo "FAIL tokens of $text: ours and theirs differ at token $(cmp "$tmp/ours" "$tmp/theirs" | sed 's/.*line //')"
      rc=1
    fi
  done
  return $rc
}

"$peer/peer.sh" versions
"$peer/peer.sh" python "$peer/peer_file.py" "$1" "$tmp/peer.gguf"
same_tokens "$tmp/peer.gguf" "$1" || failed=1
for file in "$@"; do
  name=$(basename "$file" .gguf)
  "$peer/peer.sh" python "$peer/peer_file.py" "$file" "$tmp/peer.gguf"
  compare "$name as it is" "$tmp/peer.gguf" "$file" "${limit_int8[@]}" || failed=1
  if [ ${#shipped[@]} = 0 ]; then
    "$peer/peer.sh" python "$peer/peer_file.py" "$file" "$tmp/peer.gguf" --f32
    compare "$name decoded to F32" "$tmp/peer.gguf" "$file" "${limit_f32[@]}" || failed=1
  fi
done
exit $failed
