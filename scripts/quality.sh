#!/usr/bin/env bash
# What each recipe costs on a real model: Nano in eight recipes, measured against `exact`. Writes docs/quality.md
# and docs/quality.svg; everything is made from models/nano by the programs of this build, so a second run gives
# the same figures on a machine with the same instruction set.
#
#   scripts/quality.sh [-b BIN_DIR] [-w WORK_DIR] [-o DOCS_DIR] [-j JOBS] [-p N] [-q]
#
#   -b  where ds4, ds4-eval and ds4-quantize are; build/release/bin
#   -w  for models and intermediate results, kept; build/quality. Results that are there are not made again
#   -o  where the report goes; docs
#   -j  cases answered at the same time; 4
#   -p  recipes measured at the same time, which share the processors; 1
#   -q  a quick look: 60 cases and 2000 tokens of each text
#
# About half an hour on two processors. Exit: 0 done, 1 a program failed, 2 a program is missing.
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
bin=$root/build/release/bin work=$root/build/quality out=$root/docs jobs=4 parallel=1 cases=0 text=0 chats=20000
while getopts b:w:o:j:p:q flag; do
  case $flag in
    b) bin=$OPTARG ;;
    w) work=$OPTARG ;;
    o) out=$OPTARG ;;
    j) jobs=$OPTARG ;;
    p) parallel=$OPTARG ;;
    q) cases=60 text=2000 chats=2000 ;;
    *) sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
  esac
done
nano=$root/models/nano
for program in ds4 ds4-eval ds4-quantize; do
  [ -x "$bin/$program" ] || { echo "quality: no $bin/$program: make build, or give -b" >&2; exit 2; }
done
mkdir -p "$work"
say() { echo "quality: $*" >&2; }

# --- models ------------------------------------------------------------------------------------------------

convert() {  # convert NAME FLAGS..: $work/NAME.gguf
  local name=$1; shift
  [ -f "$work/$name.gguf" ] || { say "converting $name"
    "$bin/ds4-quantize" --hf "$nano" --out "$work/$name.gguf" "$@" 2> "$work/$name.log"; }
}
# Calibration: cases with values of their own, and stories that the exact model tells.
calibrate() {
  [ ! -f "$work/imatrix.gguf" ] || return 0
  say "calibrating"
  local openings=("Once upon a time there was a king who" "In the middle of the forest there lived" "The old woman said to the boy"
                  "When the ship came into the harbour" "There was once a poor miller" "Alice looked at the rabbit and")
  : > "$work/stories.txt"
  : > "$work/passages.txt"
  for seed in $(seq 1 24); do
    local opening=${openings[seed % 6]} story
    story=$("$bin/ds4" -m "$work/exact.gguf" --raw-prompt -n 400 --seed "$seed" -p "$opening" 2> /dev/null)
    printf '===== DS4_IMATRIX_PROMPT story %s\n<｜begin▁of▁sentence｜>%s%s\n' "$seed" "$opening" "$story" >> "$work/stories.txt"
    tr '\n' ' ' <<< "$story" | cut -c 1-700 >> "$work/passages.txt"; echo >> "$work/passages.txt"
  done
  grep . "$work/passages.txt" | LC_ALL=C awk -f "$root/scripts/calibration_cases.awk" > "$work/calibration.jsonl"
  "$bin/ds4-eval" --cases "$work/calibration.jsonl" --render-cases "$work/calibration.txt" > /dev/null
  cat "$work/stories.txt" >> "$work/calibration.txt"
  "$bin/ds4" -m "$work/exact.gguf" --imatrix-dataset "$work/calibration.txt" --imatrix-out "$work/imatrix.gguf" \
    > "$work/imatrix.log" 2>&1
}
convert exact --recipe exact
calibrate
recipes=(exact mxfp4 q8_0 q4 q4-imatrix q2 q2-imatrix mixed)
for recipe in "${recipes[@]}"; do
  case $recipe in
    *-imatrix) convert "$recipe" --recipe "${recipe%-imatrix}" --imatrix "$work/imatrix.gguf" --imatrix-strict ;;
    *) convert "$recipe" --recipe "$recipe" ;;
  esac
done

# --- measurements ------------------------------------------------------------------------------------------

"$bin/ds4-eval" --render-cases "$work/suite.txt" > /dev/null
measure() {  # measure NAME KIND FLAGS..: $work/NAME.KIND.json
  local name=$1 kind=$2; shift 2
  [ -f "$work/$name.$kind.json" ] || { say "$name: $kind"
    "$bin/ds4-eval" -m "$work/$name.gguf" -t "$threads" "$@" --json "$work/$name.$kind.json" > "$work/$name.$kind.log" 2>&1; }
}
threads=$(( ($(nproc) + parallel - 1) / parallel ))
measure_recipe() {
  measure "$1" prose --text "$nano/held_text.txt" --reference "$work/exact.gguf" --text-tokens "$text"
  measure "$1" chats --chats "$work/suite.txt" --reference "$work/exact.gguf" -c 1024 --text-tokens "$chats"
  measure "$1" suite --plain --jobs "$jobs" --questions "$cases"
}
running=()
for recipe in "${recipes[@]}"; do
  measure_recipe "$recipe" & running+=($!)
  if [ ${#running[@]} -ge "$parallel" ]; then
    wait "${running[0]}"
    running=("${running[@]:1}")
  fi
done
for pid in "${running[@]}"; do wait "$pid"; done

# --- report ------------------------------------------------------------------------------------------------

number() {  # number FILE KEY: the first number of that name
  sed -n "s/^ *\"$2\": \([-0-9.e+]*\),\{0,1\}$/\1/p" "$1" | head -n 1
}
table=$work/table.txt  # recipe bytes nll-prose kl-prose top1-prose nll-chats kl-chats top1-chats passed cases
: > "$table"
for recipe in "${recipes[@]}"; do
  p=$work/$recipe.prose.json c=$work/$recipe.chats.json s=$work/$recipe.suite.json
  echo "$recipe $(stat -c %s "$work/$recipe.gguf") $(number "$p" nll_mean) $(number "$p" mean) $(number "$p" same_top1) \
$(number "$p" tokens) $(number "$c" nll_mean) $(number "$c" mean) $(number "$c" same_top1) $(number "$c" tokens) \
$(number "$s" passed) $(number "$s" cases)" >> "$table"
done
mkdir -p "$out"
machine="$(nproc) processors, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
LC_ALL=C awk -v machine="$machine" -v commit="$(git -C "$root" describe --always --dirty 2> /dev/null || echo unknown)" \
  -f "$root/scripts/quality_report.awk" "$table" > "$work/quality.md"
LC_ALL=C awk -f "$root/scripts/quality_chart.awk" "$table" > "$work/quality.svg"
cp "$work/quality.md" "$work/quality.svg" "$out/"
say "wrote $out/quality.md and $out/quality.svg"
