#!/usr/bin/env bash
# Runs the fuzz targets of tests/fuzz with address and undefined-behaviour sanitizers, one on each core at a
# time, and prints one line for each. Ends with exit 1 when anything was found; the inputs are then in
# build/fuzz/findings, and running a target with such a file as its argument shows it again.
#
#   scripts/fuzz.sh [--seconds N] [--keep] [TARGET..]
#
#   --seconds N   for each target (default 20)
#   --keep        afterwards: rewrite tests/fuzz/corpus with the fewest inputs that reach what all inputs reach
#   TARGET        gguf safetensors tokenizer chat (default: all)
#
# Kept inputs are read from tests/fuzz/corpus/TARGET, new ones go to build/fuzz/corpus/TARGET.
set -euo pipefail

cd "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")"
all=(gguf safetensors tokenizer chat)
seconds=20
keep=
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --keep) keep=1; shift ;;
    -h|--help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *)
      if [[ " ${all[*]} " != *" $1 "* ]]; then
        echo "fuzz: expected one of the targets ${all[*]}, found $1" >&2
        exit 2
      fi
      targets+=("$1"); shift ;;
  esac
done
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then echo "fuzz: --seconds: a whole number expected, found $seconds" >&2; exit 2; fi
if [ ${#targets[@]} = 0 ]; then targets=("${all[@]}"); fi

out=build/fuzz
mkdir -p build
make --no-print-directory configure PRESET=fuzz > "$out-configure.log" 2>&1 || { cat "$out-configure.log" >&2; exit 1; }
cmake --build "$out" -j "$(nproc)" --target "${targets[@]/%/_fuzz}" > "$out/build.log" || { cat "$out/build.log" >&2; exit 1; }
mkdir -p "$out/findings" "$out/logs"

# A small quarantine: freshly freed memory is what these targets could misuse, and a large one costs a page fault
# for every allocation.
export ASAN_OPTIONS=quarantine_size_mb=16
export UBSAN_OPTIONS=print_stacktrace=1
ASAN_SYMBOLIZER_PATH=$(command -v "$(scripts/tool.sh clang-19 llvm-symbolizer-19)")
export ASAN_SYMBOLIZER_PATH

limits="-rss_limit_mb=1024 -timeout=20"
# shellcheck disable=SC2317  # run by xargs
fuzz() {  # fuzz TARGET: runs it and prints its line
  local target=$1 log=$out/logs/$1.log new=$out/corpus/$1 kept=tests/fuzz/corpus/$1 max_len=4096 rc=0
  if [ "$target" = safetensors ]; then max_len=8192; fi
  mkdir -p "$new"
  # shellcheck disable=SC2086  # several flags
  "$out/bin/${target}_fuzz" -max_total_time="$seconds" $limits -max_len=$max_len -print_final_stats=1 \
      -dict="tests/fuzz/dict/$target.dict" -artifact_prefix="$out/findings/$target-" "$new" "$kept" > "$log" 2>&1 || rc=$?
  awk -v target="$target" -v seconds="$seconds" -v rc=$rc '
    / cov: / {for (i = 1; i < NF; i++) {if ($i == "cov:") cov = $(i + 1); if ($i == "corp:") corpus = $(i + 1)}}
    /number_of_executed_units/ {n = $2}
    /average_exec_per_sec/ {rate = $2}
    /peak_rss_mb/ {rss = $2}
    END {
      split(corpus, size, "/")
      printf "%-12s %5d s  %10d executions  %6d/s  corpus %5d inputs  coverage %5d  peak %4d MB  %s\n",
             target, seconds, n, rate, size[1], cov, rss, rc == 0 ? "0 findings" : "FOUND SOMETHING"
    }' "$log"
  if [ $rc != 0 ]; then
    grep -E 'check failed|ERROR|runtime error|Test unit written' "$log" | sed 's/^/  /' || true
    echo "  all of it: $log"
  fi
  return $rc
}

export -f fuzz
export out seconds limits
found=0
# shellcheck disable=SC2016  # expanded by the shell of each target
printf '%s\n' "${targets[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'fuzz {} > "$out/logs/{}.line"; rc=$?; cat "$out/logs/{}.line"; exit $rc' || found=1

if [ -n "$keep" ] && [ $found = 0 ]; then
  for target in "${targets[@]}"; do
    kept=tests/fuzz/corpus/$target least=$out/least/$target
    rm -rf "$least"
    mkdir -p "$least"
    # By lines reached alone; how often each was reached would keep four times as much.
    # shellcheck disable=SC2086
    "$out/bin/${target}_fuzz" $limits -set_cover_merge=1 -use_counters=0 "$least" "$kept" "$out/corpus/$target" \
        > "$out/logs/$target-merge.log" 2>&1
    # Inputs that once found something have names of their own and stay whatever they reach.
    find "$kept" -type f ! -name 'found-*' -delete
    cp "$least"/* "$kept/"
    echo "$target: $(find "$kept" -type f | wc -l) inputs, $(du -sb "$kept" | cut -f1) bytes kept"
  done
fi
exit $found
