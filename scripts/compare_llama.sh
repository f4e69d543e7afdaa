#!/usr/bin/env bash
# ds4 beside llama.cpp on the same GGUF files: reading a prompt of 512 tokens, and answering 64 tokens behind it.
# The two programs take turns, round by round; medians and ranges of all rounds, and their ratios, go to a Markdown
# table and a chart. llama.cpp runs with its defaults but for threads and -ngl 0. Fetches it at first use
# (peer/peer.sh); makes the models itself: Nano without its draft block, which llama.cpp does not take, and
# synthetic slices of Flash (four layers, one of each kind: 9.5 GB for q2, 16.8 GB for q4).
#
#   scripts/compare_llama.sh [flags]
#     -r, --rounds N   rounds, default 5
#     --quick          only Nano
#     --models "A B"   only these of: nano-q8_0 nano-q4 nano-q2 flash4-q2 flash4-q4
#     --threads "1 2"  thread counts for every model; default 1, and also 2 for nano-q8_0 and flash4-q2
#     --bin DIR        where our programs are, default build/release/bin
#     --peer DIR       llama.cpp as `peer.sh pack` packed it; nothing is fetched then
#     --work DIR       models and results, default build/compare. Rounds whose results are there are not run
#                      again, so that a run can be continued; --fresh removes them first
#     --keep           keep the slices of Flash
#     --report         measure nothing, report what is there
#     --publish        put the table into docs/perf.md and the chart to docs/compare.svg
#
# Exit: 0 done, 1 a program failed, 2 a program is missing or the command line is wrong, 130 interrupted.
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
bin=$root/build/release/bin work=$root/build/compare peer=() rounds=5 threads='' keep='' report='' publish='' fresh=''
models='nano-q8_0 nano-q4 nano-q2 flash4-q2 flash4-q4'
prompt_tokens=512 answer_tokens=64
usage() { sed -n '2,25s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
say() { echo "compare: $*" >&2; }
while [ $# -gt 0 ]; do
  case $1 in
    -r | --rounds) rounds=${2:?--rounds N}; shift ;;
    --quick) models='nano-q8_0 nano-q4 nano-q2' ;;
    --models) models=${2:?--models LIST}; shift ;;
    --threads) threads=${2:?--threads LIST}; shift ;;
    --bin) bin=${2:?--bin DIR}; shift ;;
    --peer) peer=(--dir "${2:?--peer DIR}"); shift ;;
    --work) work=${2:?--work DIR}; shift ;;
    --keep) keep=1 ;;
    --report) report=1 ;;
    --publish) publish=1 ;;
    --fresh) fresh=1 ;;
    *) usage ;;
  esac
  shift
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage
mkdir -p "$work"
results=$work/results.tsv  # model threads round engine prefill decode load
facts=$work/facts.txt

# --- measuring ---------------------------------------------------------------------------------------------

make_model() {  # make_model NAME: $work/NAME.gguf
  local name=$1 file=$work/$1.gguf
  [ ! -f "$file" ] || return 0
  say "making $name"
  case $name in
    nano-*) "$bin/ds4-quantize" --hf "$root/models/nano" --no-mtp --recipe "${name#nano-}" --out "$file" ;;
    flash4-*) "$bin/ds4-quantize" synth --shape flash:LAYERS=4 --recipe "${name#flash4-}" --out "$file" ;;
    *) say "no model $name"; exit 2 ;;
  esac > "$work/$name.log" 2>&1 || { tail -n 3 "$work/$name.log" >&2; exit 1; }
}

run_ours() {  # run_ours FILE THREADS: prefill and decode rates
  "$bin/ds4-bench" -m "$1" --allow-slice --warm-weights -t "$2" --prompt-file "$root/models/nano/held_text.txt" \
    --ctx-start $prompt_tokens --ctx-max $prompt_tokens --gen-tokens $answer_tokens 2> "$work/log" |
    awk -F, 'NR == 2 { print $3 "\t" $5 }'
}

peer_tool() { "$root/scripts/peer/peer.sh" "${peer[@]}" llama "$@" 2> "$work/log"; }

# Nano: llama-bench, whose warm-up reads a whole prompt; in two runs, because -d (the answer comes behind as many
# tokens as ours) is for all tests of a run. A slice of Flash takes minutes that way, most of them warm-up and
# loading: llama-batched-bench with one sequence loads once, warms up shortly as ours does then, and times both.
run_theirs() {  # run_theirs FILE THREADS: prefill and decode rates
  local part
  case $1 in
    */flash*)
      peer_tool llama-batched-bench -m "$1" -t "$2" -tb "$2" -ngl 0 -c $((2 * prompt_tokens)) -npp $prompt_tokens \
        -ntg $answer_tokens -npl 1 --output-format jsonl |
        sed -n 's/.*"speed_pp": \([0-9.]*\),.*"speed_tg": \([0-9.]*\),.*/\1\t\2/p' ;;
    *)
      for part in "-p $prompt_tokens -n 0" "-p 0 -n $answer_tokens -d $prompt_tokens"; do
        # shellcheck disable=SC2086  # two flags
        peer_tool llama-bench -m "$1" -t "$2" -ngl 0 -r 1 $part -o jsonl | sed -n 's/.*"avg_ts": \([0-9.]*\).*/\1/p'
      done | paste -sd '\t' ;;
  esac
}

load_average() { cut -d ' ' -f 1 /proc/loadavg; }

measure() {  # measure MODEL THREADS ROUND ENGINE
  local load rates
  if [ -f "$results" ] && awk -v key="$1 $2 $3 $4" '$1 " " $2 " " $3 " " $4 == key { found = 1 } END { exit !found }' "$results"; then
    return 0
  fi
  load=$(load_average)
  case $4 in
    ds4) rates=$(run_ours "$work/$1.gguf" "$2") ;;
    llama.cpp) rates=$(run_theirs "$work/$1.gguf" "$2") ;;
  esac || rates=''
  if ! [[ $rates =~ ^[0-9.]+$'\t'[0-9.]+$ ]]; then
    say "$4 does not run $1: expected two rates, found '$rates'"
    tail -n 5 "$work/log" >&2
    exit 1
  fi
  say "$1, $2 threads, round $3, $4: $(echo "$rates" | tr '\t' ' ')"
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$rates" "$load" >> "$results"
}

threads_of() {
  if [ -n "$threads" ]; then
    echo "$threads"
  else
    case $1 in
      nano-q8_0 | flash4-q2) echo '1 2' ;;
      *) echo 1 ;;
    esac
  fi
}

write_facts() {
  local version
  version=$("$root/scripts/peer/peer.sh" "${peer[@]}" versions | sed -n 's/^llama.cpp-tools \(.*:\)\{0,1\}\([^+-]*\).*/\2/p')
  {
    echo "machine: $(nproc) processors, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    echo "ds4: $("$bin/ds4-bench" --version | head -n 1)"
    echo "llama.cpp: $version of Debian"
    echo "date: $(date -u +%Y-%m-%d)"
  } > "$facts"
}

if [ -z "$report" ]; then
  for program in ds4-bench ds4-quantize; do
    [ -x "$bin/$program" ] || { say "no $bin/$program: make programs, or give --bin"; exit 2; }
  done
  trap 'exit 130' INT TERM
  if [ -n "$fresh" ]; then rm -f "$results"; fi
  write_facts
  for model in $models; do
    make_model "$model"
    for n in $(threads_of "$model"); do
      for round in $(seq 1 "$rounds"); do
        measure "$model" "$n" "$round" ds4
        measure "$model" "$n" "$round" llama.cpp
      done
    done
    if [[ $model == flash4-* && -z $keep ]]; then rm -f "$work/$model.gguf"; fi
  done
fi

# --- report ------------------------------------------------------------------------------------------------

[ -s "$results" ] || { say "no results in $results"; exit 1; }
LC_ALL=C awk -v facts="$facts" -v prompt=$prompt_tokens -v answer=$answer_tokens -v svg="$work/compare.svg" \
  -f "$root/scripts/compare_report.awk" "$results" > "$work/compare.md"
cat "$work/compare.md"
if [ -n "$publish" ]; then
  # The section between the two marks.
  awk -v table="$work/compare.md" '
    /^<!-- compare_llama.sh:/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
    /^<!-- end of compare_llama.sh/ { skip = 0 }
    !skip' "$root/docs/perf.md" > "$work/perf.md"
  cp "$work/perf.md" "$root/docs/perf.md"
  cp "$work/compare.svg" "$root/docs/compare.svg"
  say "wrote docs/perf.md and docs/compare.svg"
fi
