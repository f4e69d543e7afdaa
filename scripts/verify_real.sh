#!/usr/bin/env bash
# For owners of real Flash or Pro weights: is this file what it should be, and does this engine run it right?
# Checks the download, the file, how it predicts a text and official continuations, and whether it finds a
# sentence in a long text. Says at the end what it could not check.
#
#   scripts/verify_real.sh [-b BIN_DIR] [-c MANIFEST] [-t TEXT] [-l CHARS] [-s SHA256] [-n] FILE.gguf
#
#   -b  where ds4, ds4-eval and ds4-quantize are; build/release/bin
#   -c  official continuations: a TSV of id, prompt file, continuation file (docs/formats/eval.md); without it
#       they are not checked, since none can be shipped
#   -t  text for the perplexity, at least a few thousand words of ordinary prose; models/nano/held_text.txt
#   -l  length of the longest text with a hidden sentence, in characters; 48000
#   -s  the SHA-256 that the file's publisher names; without it, the ones known here
#   -n  skip the SHA-256 (minutes for a large file)
#
# Exit: 0 nothing failed, 1 something did, 2 the command line is wrong or a program is missing.
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
bin=$root/build/release/bin manifest='' text=$root/models/nano/held_text.txt longest=48000 sha='' hash=1
usage() { sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
while getopts b:c:t:l:s:n flag; do
  case $flag in
    b) bin=$OPTARG ;;
    c) manifest=$OPTARG ;;
    t) text=$OPTARG ;;
    l) longest=$OPTARG ;;
    s) sha=$OPTARG ;;
    n) hash=0 ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 1 ] || usage
file=$1
case $longest in ''|*[!0-9]*) echo "verify_real: -l: a number of characters expected, found '$longest'" >&2; exit 2 ;; esac
for program in ds4 ds4-eval ds4-quantize; do
  [ -x "$bin/$program" ] || { echo "verify_real: no $bin/$program: make build, or give -b" >&2; exit 2; }
done
[ -f "$file" ] || { echo "verify_real: $file: a model file expected, found none" >&2; exit 2; }
[ -f "$text" ] || { echo "verify_real: $text: a text expected, found none" >&2; exit 2; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0 open=()
pass() { echo "PASS  $*"; }
bad() { echo "FAIL  $*"; failed=1; }
note() { echo "      $*"; }
unchecked() { open+=("$*"); }

# --- the download ------------------------------------------------------------------------------------------

# Size and SHA-256 of published files (docs/formats/gguf.md); - where only the size is known.
published="86720111488 efc7ed607ff27076e3e501fc3fefefa33c0ed8cf1eff483a2b7fdc0c2e616668 Flash q2-imatrix, chat-v2
97591747456 - Flash mixed (layers 37-42 q4)-imatrix, chat-v2
164633502304 - Flash q4-imatrix, chat-v2"
size=$(stat -Lc %s "$file")
known=$(awk -v n="$size" '$1 == n' <<< "$published")
if [ -n "$known" ]; then
  pass "size: $size bytes, as the published $(cut -d' ' -f3- <<< "$known")"
  [ -n "$sha" ] || sha=$(cut -d' ' -f2 <<< "$known")
else
  unchecked "the size: $size bytes is no published file's that is known here"
fi
if [ $hash = 0 ]; then
  unchecked "the SHA-256 (-n)"
else
  found=$(sha256sum < "$file" | cut -d' ' -f1)
  case $sha in
    ''|-) note "SHA-256 $found"; unchecked "the SHA-256: none is known for this file (-s gives one)" ;;
    "$found") pass "SHA-256 $found" ;;
    *) bad "SHA-256: expected $sha, found $found: damaged download, or another revision of the file" ;;
  esac
fi

# --- the file ----------------------------------------------------------------------------------------------

if ! "$bin/ds4" -m "$file" --inspect > "$tmp/inspect" 2> "$tmp/error"; then
  bad "ds4 does not load it: $(tail -n 1 "$tmp/error")"
  exit 1
fi
shape=$(sed -n 's/^shape *\([A-Za-z]*\):.*/\1/p' "$tmp/inspect")
pass "ds4 loads it: $(sed -n 's/^model *//p' "$tmp/inspect"); every tensor, type and constant checked"
sed -n 's/^\(types\)\{0,1\} *\([A-Z][A-Z0-9_]* *[0-9]* tensors.*\)/      \2/p' "$tmp/inspect"
if grep -q '^synthetic' "$tmp/inspect"; then
  bad "its weights are random (made by ds4-quantize synth): there is nothing to verify"
  exit 1
fi
judged=1
if [ "$shape" = Nano ]; then
  judged=0
  note "this is Nano, a test model: figures below are shown, and judged only where they mean something"
fi
"$bin/ds4-quantize" inspect "$file" > "$tmp/container"
note "$(grep '^container' "$tmp/container")"

# --- prediction of a text ----------------------------------------------------------------------------------

# Real weights of this size predict ordinary prose at a perplexity of some 5 to 15; a wrong constant, layout or
# rounding puts it into the hundreds. The bound is wide on purpose: it tells right from wrong, not good from better.
if "$bin/ds4" -m "$file" --perplexity-file "$text" > "$tmp/ppl" 2> "$tmp/error"; then
  ppl=$(sed -n 's/.* ppl=\([0-9.]*\).*/\1/p' "$tmp/ppl")
  if [ $judged = 0 ]; then
    note "perplexity of $(basename "$text"): $ppl"
    unchecked "the perplexity: Nano does not know this kind of prose"
  elif awk -v p="$ppl" 'BEGIN { exit !(p > 1 && p < 40) }'; then
    pass "perplexity of $(basename "$text"): $ppl (expected below 40)"
  else
    bad "perplexity of $(basename "$text"): expected below 40, found $ppl: the arithmetic or the file is wrong"
  fi
else
  bad "perplexity: $(tail -n 1 "$tmp/error")"
fi

# --- official continuations --------------------------------------------------------------------------------

# Published for Flash q4: 0.177 nats a token, first token right in 81 of 100, greedy prefix 11.9 of 24.
if [ -z "$manifest" ]; then
  unchecked "official continuations: give a manifest with -c"
elif "$bin/ds4-eval" -m "$file" --continuations "$manifest" > "$tmp/cont" 2> "$tmp/error"; then
  nll=$(awk '/^mean nll per token/ { print $NF }' "$tmp/cont")
  tail -n 4 "$tmp/cont" | sed 's/^/      /'
  if awk -v n="$nll" 'BEGIN { exit !(n != "" && n < 0.4) }'; then
    pass "official continuations: $nll nats a token (expected below 0.4; 0.177 published for q4)"
  else
    bad "official continuations: expected below 0.4 nats a token, found ${nll:-nothing}"
  fi
else
  bad "official continuations: $(tail -n 1 "$tmp/error")"
fi

# --- a sentence in a long text -----------------------------------------------------------------------------

# The same prose with one sentence put in, early, in the middle and late: right answers need the compressed rows,
# the indexer's choice and every position in between.
LC_ALL=C awk -v longest="$longest" '
  { gsub(/[\\"\t\r]/, " "); gsub(/[^ -~]/, ""); text = text $0 " " }
  END {
    while (length(text) < longest && length(text) > 0) text = text text
    id = 0
    for (n = 3000; n <= longest; n *= 4)
      for (part = 1; part <= 9; part += 4) {
        at = int(n * part / 10); number = 1000 + (id * 617 + 389) % 9000
        printf "{\"id\": \"needle-%d-%d\", \"source\": \"needle\", \"question\": \"Read this text.\\n\\n%s The access code is %d. %s\\n\\nWhat is the access code?\", \"answer\": %d}\n",
          n, part * 10, substr(text, 1, at), number, substr(text, at + 1, n - at), number
        id++
      }
  }' "$text" > "$tmp/needles.jsonl"
needles=$(wc -l < "$tmp/needles.jsonl")
if [ "$needles" = 0 ]; then
  unchecked "the needle test: -l $longest is below 3000"
elif "$bin/ds4-eval" -m "$file" --cases "$tmp/needles.jsonl" --plain --nothink -n 64 > "$tmp/needle" 2> "$tmp/error"; then
  passed=$(awk '$1 == "all" { print $2 }' "$tmp/needle")
  if [ $judged = 0 ]; then
    note "hidden sentence found in ${passed:-?} of $needles texts of up to $longest characters"
    unchecked "the needle test: its question form is not one Nano was trained on"
  elif [ "${passed:-0}" = "$needles" ]; then
    pass "hidden sentence found in all $needles texts of up to $longest characters"
  else
    bad "hidden sentence: expected to be found in all $needles texts, found in ${passed:-0}"
    awk '$1 == "all" { tail = 1; next } tail && NF' "$tmp/needle" | head -n 9 | sed 's/^/      /'
  fi
else
  bad "needle test: $(tail -n 1 "$tmp/error")"
fi

unchecked "logits against another implementation of the same weights, and contexts beyond $longest characters"
echo
echo "Not checked:"
printf '  - %s\n' "${open[@]}"
exit $failed
