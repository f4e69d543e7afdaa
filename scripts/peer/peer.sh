#!/usr/bin/env bash
# Other people's software that reads GGUF files or runs DeepSeek-V4, for checks of ours against it. Everything
# lies below .deps/peer: Debian sid packages with all they need down to libc, unpacked and never installed, and
# one npm package. Nothing of it is linked into the product.
#
#   scripts/peer/peer.sh fetch [--refresh]    fills .deps/peer; quick when it is filled
#   scripts/peer/peer.sh versions             what was fetched, one a line
#   scripts/peer/peer.sh pack FILE.tar.xz     its benchmarks with all they need, as folder `peer`, for a machine without
#                                             a network: unpack it there, then `peer.sh --dir DIR/peer llama ..`
#   scripts/peer/peer.sh llama TOOL ARGS..    a llama.cpp tool: llama-server, llama-bench, llama-perplexity, ..
#   scripts/peer/peer.sh ops ARGS..           ggml's test-backend-ops: its kernels one by one (not in the pack)
#   scripts/peer/peer.sh python ARGS..        Python with numpy and gguf-py
#   scripts/peer/peer.sh node FILE ARGS..     Node; FILE's first argument is the folder of @huggingface/gguf
#                                             (this one needs the machine's own node and npm)
#
# Exit: 2 when this machine needs a hand first (it says which), 1 when fetching failed, else the tool's own.
set -euo pipefail
umask 022

root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
deps=$root/.deps
peer=$deps/peer
packed=''
if [ "${1:-}" = --dir ]; then
  packed=1
  peer=$(readlink -f "${2:?--dir DIR}") || { echo "peer: no folder $2" >&2; exit 2; }
  shift 2
fi
# shellcheck source=scripts/suite_apt.sh
. "$root/scripts/suite_apt.sh"
say() { echo "peer: $*" >&2; }
fail() { say "$*"; exit 1; }

suite=sid
packages=(llama.cpp-tools llama.cpp-tools-extra python3-gguf)
npm_package=@huggingface/gguf@0.4.6  # it has no lock file of ours, so its version is written here

# The packages and everything they depend on: an empty status file makes apt believe that nothing is installed.
# Left out are those that only scripts of an installation want.
wanted_packages() {
  : > "$peer/no-status"
  suite_apt "$deps/apt" $suite -qq -y --no-install-recommends --print-uris -o Debug::NoLocking=1 \
    -o Dir::State::status="$peer/no-status" install "${packages[@]}" |
    awk '/^\x27/ {sub(/_.*/, "", $2); if ($2 !~ /^(debconf|dpkg|wget|netbase|tzdata|ca-certificates)$/) print $2}'
}

fetch_debian() {
  local tmp=$1 deb
  suite_update "$deps/apt" $suite || fail "these lists are needed to fetch ${packages[*]}"
  mapfile -t wanted < <(wanted_packages)
  [ ${#wanted[@]} -gt 0 ] || fail "$suite does not have ${packages[*]}"
  say "fetching ${#wanted[@]} packages of Debian $suite"
  mkdir "$tmp/debs" "$tmp/root"
  ( cd "$tmp/debs" && suite_apt "$deps/apt" $suite -q download "${wanted[@]}" ) > "$tmp/log" 2>&1 ||
    { tail -n 5 "$tmp/log" >&2; fail "could not fetch them (offline?)"; }
  for deb in "$tmp"/debs/*.deb; do dpkg -x "$deb" "$tmp/root"; done
  for deb in "$tmp"/debs/*.deb; do
    # shellcheck disable=SC2016  # placeholders of dpkg-deb
    dpkg-deb -W --showformat '${Package} ${Version}\n' "$deb"
  done | grep -E '^(llama|libllama|libggml|python3-(gguf|numpy) |python3.[0-9]+ )' > "$tmp/versions"
  rm -rf "$tmp/debs" "$tmp/root/usr/share/doc" "$tmp/root/usr/share/man"
}

fetch_npm() {
  local tmp=$1
  if ! command -v node > /dev/null || ! command -v npm > /dev/null; then
    say "node and npm are not here: going without $npm_package"
    return 0
  fi
  mkdir "$tmp/node"
  ( cd "$tmp/node" && echo '{"private": true}' > package.json &&
      npm install --no-audit --no-fund --ignore-scripts --cache "$tmp/npm-cache" "$npm_package" ) > "$tmp/log" 2>&1 ||
    { tail -n 5 "$tmp/log" >&2; fail "could not fetch $npm_package"; }
  { echo "${npm_package%@*} ${npm_package##*@}"; echo "node $(node --version)"; } >> "$tmp/versions"
}

fetch() {
  if [ "${1:-}" != --refresh ] && [ -f "$peer/versions" ]; then return 0; fi
  [ -z "$packed" ] || { say "$peer: expected what 'peer.sh pack' made, found no file 'versions'"; exit 2; }
  mkdir -p "$peer"
  exec 9> "$peer/lock"
  flock 9
  if [ "${1:-}" != --refresh ] && [ -f "$peer/versions" ]; then return 0; fi
  rm -rf "$peer"/tmp.*
  tmp=$(mktemp -d "$peer/tmp.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  trap 'exit 130' INT TERM HUP
  fetch_debian "$tmp"
  fetch_npm "$tmp"
  rm -rf "$peer/root" "$peer/node" "$peer/versions"
  mv "$tmp/root" "$peer/"
  if [ -d "$tmp/node" ]; then mv "$tmp/node" "$peer/"; fi
  mv "$tmp/versions" "$peer/"
}

libraries() {  # the folders of the unpacked packages that hold shared libraries
  find "$peer/root/usr/lib" -name '*.so*' -printf '%h\n' | grep -v '/python3' | sort -u | paste -sd:
}

# Runs a program of the unpacked packages with their own libc: that of the machine may be older.
run_private() {
  local program=$1; shift
  [ -x "$program" ] || { say "no such program: $program"; exit 2; }
  exec "$peer/root"/usr/lib*/ld-linux-*.so.* --library-path "$(libraries)" "$program" "$@"
}

# The libraries of ggml for one kind of processor: the newest that this one can run. Not the one with AMX
# (sapphirerapids): with it llama.cpp 0.7.0 aborts when it makes a context for this architecture.
cpu_kinds=(zen4:avx512_bf16 icelake:avx512_vnni skylakex:avx512f haswell:avx2 x64:sse2)
cpu_library() {
  local flags kind
  flags=" $(grep -m 1 -E '^(flags|Features)' /proc/cpuinfo) "
  for kind in "${cpu_kinds[@]}"; do
    if [[ $flags == *" ${kind#*:} "* ]]; then
      find "$peer/root/usr/lib" -name "libggml-cpu-${kind%:*}.so" | grep . && return 0
    fi
  done
  find "$peer/root/usr/lib" -name 'libggml-cpu*.so' | sort | head -n 1
}

# Paths below $peer of a program and the shared libraries it is linked with; of a link its own name, not its target.
needed_by() {
  local loader=("$peer/root"/usr/lib*/ld-linux-*.so.*)
  { echo "$1"; "${loader[0]}" --library-path "$(libraries)" --list "$1" | grep -o "$peer/[^ ]*"; } |
    sed "s|^$peer/||" | sort -u
}

# Licence texts are not among what fetch keeps: the pack is for measuring, not for giving away. About 9 MB.
pack() {
  local wanted kind
  mapfile -t wanted < <({ needed_by "$peer/root/usr/bin/llama-bench"; needed_by "$peer/root/usr/bin/llama-batched-bench"; } |
      sort -u
    for kind in "${cpu_kinds[@]}"; do
      find "$peer/root/usr/lib" -name "libggml-cpu-${kind%:*}.so" | sed "s|^$peer/||"
    done)
  tar -C "$peer" -chaf "$1" --transform 's|^|peer/|' versions "${wanted[@]}"
}

command=${1:-}
shift || true
case $command in
  fetch) fetch "$@" ;;
  versions) fetch; cat "$peer/versions" ;;
  pack) fetch; pack "${1:?usage: peer.sh pack FILE.tar.xz}" ;;
  llama)
    fetch
    tool=${1:?usage: peer.sh llama TOOL ARGS..}; shift
    GGML_BACKEND_PATH=$(cpu_library) run_private "$peer/root/usr/bin/$tool" "$@" ;;
  ops)
    fetch
    GGML_BACKEND_PATH=$(cpu_library) run_private "$(find "$peer/root/usr/libexec" -name test-backend-ops)" "$@" ;;
  python)
    fetch
    export PYTHONHOME="$peer/root/usr" PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1
    run_private "$(find "$peer/root/usr/bin" -name 'python3.[0-9]*' | grep -E '/python3\.[0-9]+$' | head -n 1)" "$@" ;;
  node)
    fetch
    [ -d "$peer/node" ] || { say "no $npm_package: node and npm are needed to fetch it, then 'fetch --refresh'"; exit 2; }
    file=$(readlink -f "${1:?usage: peer.sh node FILE ARGS..}"); shift
    exec node "$file" "$peer/node" "$@" ;;
  *) sed -n '2,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
