#!/usr/bin/env bash
# Makes a synthetic Flash at its full size (86.7 GB for q2) in memory, says how long it took, holds size and
# counts against the published ones, loads it with ds4 --inspect, and removes it again.
#
#   scripts/synth_full.sh [-b BIN_DIR] [-d FOLDER] [-r q2|q4|mxfp4|mixed] [-n THREADS] [-s SECONDS] [-c] [-k]
#
#   -b  where ds4 and ds4-quantize are; build/release/bin
#   -d  an existing folder to write to; without it a tmpfs of the file's size and 1 GiB is mounted (needs root)
#       and unmounted afterwards
#   -r  recipe; q2
#   -n  threads; one per processor
#   -s  fail when the file took longer; no limit
#   -c  also walk tokens through all 43 layers (ds4-quantize synth --check), not counted in the time
#   -k  keep the file (with -d only)
#
# Exit: 0 all as expected, 1 not, 2 this machine cannot (no root for a mount, not enough memory or space).
set -euo pipefail

bin=build/release/bin folder='' file='' recipe=q2 threads=0 limit='' check=--no-check keep=''
while getopts b:d:r:n:s:ck flag; do
  case $flag in
    b) bin=$OPTARG ;;
    d) folder=$OPTARG ;;
    r) recipe=$OPTARG ;;
    n) threads=$OPTARG ;;
    s) limit=$OPTARG ;;
    c) check=--check ;;
    k) keep=1 ;;
    *) exit 2 ;;
  esac
done
say() { echo "synth_full: $*"; }
cannot() { say "$*" >&2; exit 2; }
fail() { say "FAILED: $*" >&2; exit 1; }

# Padded tensor data of the published files (docs/formats/gguf.md); the mixed one has layers 37-42 in Q4_K.
mixed=()
case $recipe in
  q2) data=86714777664 ;;
  mixed) data=97586413632 mixed=(--mixed-layers 37-42) ;;
  mxfp4) data=155971125312 ;;
  q4) data=164628168768 ;;
  *) cannot "unknown recipe $recipe" ;;
esac
for program in ds4 ds4-quantize; do
  [ -x "$bin/$program" ] || cannot "no $program in $bin"
done

mounted=''
log=$(mktemp)
clean_up() {
  rm -f "$log"
  [ -n "$keep" ] || [ -z "$file" ] || rm -f "$file"
  if [ -n "$mounted" ]; then umount "$mounted" && rmdir "$mounted"; fi
}
trap clean_up EXIT
need_kib=$(( (data + (1 << 30)) / 1024 ))
if [ -z "$folder" ]; then
  [ -z "$keep" ] || cannot "-k needs -d: a tmpfs goes away"
  [ "$(id -u)" = 0 ] || cannot "mounting a tmpfs needs root; give a folder with -d"
  free_kib=$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)
  [ "$free_kib" -gt "$need_kib" ] || cannot "$need_kib KiB of memory needed, $free_kib available"
  folder=$(mktemp -d)
  mount -t tmpfs -o "size=${need_kib}k" tmpfs "$folder" || { rmdir "$folder"; cannot "cannot mount a tmpfs"; }
  mounted=$folder
fi
file=$folder/flash-$recipe.gguf

"$bin/ds4-quantize" synth --shape flash --recipe "$recipe" "${mixed[@]}" --threads "$threads" "$check" \
  --overwrite --out "$file" 2>&1 | tee "$log" || fail "ds4-quantize"
seconds=$(sed -n 's/^wrote .* in \([0-9.]*\) s,.*/\1/p' "$log")
bytes=$(stat -c %s "$file")
awk -v s="$seconds" -v n="$bytes" -v c="$(nproc)" -v t="$threads" 'BEGIN {
  if (t == 0) t = c
  printf "synth_full: %d bytes in %.1f s, %.0f MB/s, %.0f MB/s a thread (%d threads, %d processors)\n", n, s,
    n / 1e6 / s, n / 1e6 / s / t, t, c }'

inspect=$("$bin/ds4" -m "$file" --inspect --mem-limit 1000G) || fail "ds4 --inspect"
echo "$inspect"
expect() { grep -qE "$1" <<< "$inspect" || fail "--inspect does not say '$1'"; }
expect ", 1328 tensors\)"
expect " F16 +359 tensors"
expect " F32 +492 tensors"
expect " Q8_0 +345 tensors"
expect " I32 +3 tensors"
# Data begins after a header of some 5.3 MB that ends on a multiple of 32.
header=$((bytes - data))
if [ "$header" -lt 5200000 ] || [ "$header" -gt 5400000 ] || [ $((header % 32)) != 0 ]; then
  fail "$bytes bytes: expected $data of data and a header of 5.3 MB"
fi
say "size and counts as published: $data bytes of data after $header of header"
if [ -n "$limit" ]; then
  awk -v s="$seconds" -v l="$limit" 'BEGIN { exit s > l }' || fail "$seconds s are more than $limit s"
fi
say "passed"
