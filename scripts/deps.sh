#!/usr/bin/env bash
# Brings what the build needs into .deps/prefix: Debian packages downloaded and unpacked, never installed, and a
# few libraries built static from Debian source packages. A compiler and CMake come from apt when missing and
# root or sudo is there. Quick when nothing changed; safe to interrupt, to repeat and to run twice at once.
#
#   scripts/deps.sh [--arm64] [--refresh]
#
#   --arm64     what the tests for 64-bit Arm need, into .deps/arm64/prefix, cross-compiled where .deps/prefix has
#               something built (make ci does this; .deps/prefix has to be there)
#   --refresh   asks the mirrors again even if all seems to be there
#
# Exit: 0 ready, 1 something failed (it says what), 2 this machine needs a hand first (it says which).
# Layout: .deps/prefix (used by the build), .deps/debs and .deps/built (kept downloads and builds, so that a
# longer list costs only what is new), .deps/apt (private apt state).
set -euo pipefail
umask 022

# Static archives come from these. No runtime package: nothing in the prefix is a shared library.
packages=(
  libexpected-dev      # tl::expected
  libcli11-dev         # flags
  nlohmann-json3-dev   # JSON
  libpcre2-dev         # pre-tokenizer
  libutf8proc-dev      # widths, normal forms
  zlib1g-dev libzstd-dev libxxhash-dev libssl-dev
  libedit-dev libncurses-dev libbsd-dev libmd-dev  # line editing: libedit.a, and libtinfo.a, libbsd.a, libmd.a behind it
  libgtest-dev libgmock-dev librapidcheck-dev
  ninja-build
)
# Debian ships these as shared libraries only, or too old (Highway 1.0.3 in Debian 12 lacks VNNI), so they are
# built static from the source packages of one suite: the same versions on Debian 12 and 13.
source_suite=trixie
sources=(fmtlib spdlog highway benchmark ftxui)

source_flags() {  # the CMake options of one source package
  case $1 in
    fmtlib)    echo "-DFMT_TEST=OFF -DFMT_DOC=OFF" ;;
    spdlog)    echo "-DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF -DSPDLOG_BUILD_TESTS=OFF" ;;
    highway)   echo "-DHWY_ENABLE_TESTS=OFF -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_CONTRIB=OFF -DBUILD_TESTING=OFF" ;;
    benchmark) echo "-DBENCHMARK_ENABLE_TESTING=OFF -DBENCHMARK_ENABLE_GTEST_TESTS=OFF -DBENCHMARK_ENABLE_WERROR=OFF
                     -DBENCHMARK_INSTALL_DOCS=OFF" ;;
    ftxui)     echo "-DFTXUI_BUILD_DOCS=OFF -DFTXUI_BUILD_EXAMPLES=OFF -DFTXUI_BUILD_TESTS=OFF -DFTXUI_ENABLE_INSTALL=ON" ;;
  esac
  echo "${cross_flags:-}"
}

cmake_needed=3.25
self=$(readlink -f "${BASH_SOURCE[0]}")
root=$(dirname "$(dirname "$self")")
deps=$root/.deps
arch=
refresh=0
for arg in "$@"; do
  case $arg in
    --arm64) arch=arm64 ;;
    --refresh) refresh=1 ;;
    *) sed -n '2,14s/^# \{0,1\}//p' "$self"; exit 2 ;;
  esac
done
if [ -n "$arch" ]; then
  [ -x "$deps/prefix/usr/bin/ninja" ] || { echo "deps: run scripts/deps.sh first: $deps/prefix/usr/bin/ninja is not there" >&2; exit 2; }
  # shellcheck disable=SC2034  # suite_apt.sh reads it
  SUITE_APT_ARCH=$arch  # of this script alone: the compiler that tool.sh fetches runs here
  # Programs and benchmarks are not built for this machine, and so need nothing (preset arm64).
  packages=(libexpected-dev libcli11-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev zlib1g-dev libzstd-dev
            libxxhash-dev libssl-dev libgtest-dev libgmock-dev librapidcheck-dev)
  sources=(fmtlib spdlog highway)
  # On CMake's command line the last of several settings counts.
  cross_flags="-DCMAKE_TOOLCHAIN_FILE=$root/cmake/Arm64.cmake -DCMAKE_MAKE_PROGRAM=$deps/prefix/usr/bin/ninja"
  deps=$deps/$arch
fi
prefix=$deps/prefix
# shellcheck source=scripts/suite_apt.sh
. "$root/scripts/suite_apt.sh"

say()  { echo "deps: $*"; }
fail() { echo "deps: $*" >&2; exit 1; }
hand() { echo "deps: $*" >&2; exit 2; }

# --- what this machine is ------------------------------------------------------------------------------------

os_id=$( . /etc/os-release 2>/dev/null; echo "${ID:-unknown} ${VERSION_ID:-}" )
cmake_is_new_enough() {
  local have
  have=$(cmake --version 2>/dev/null | awk 'NR == 1 {print $3}') || return 1
  [ -n "$have" ] && [ "$(printf '%s\n%s\n' "$cmake_needed" "$have" | sort -V | head -n 1)" = "$cmake_needed" ]
}
missing_tools() {
  command -v g++ > /dev/null || echo g++
  cmake_is_new_enough || echo cmake
}
stamp_key() {  # changes with the package list, the scripts, the release and the compiler
  { cat "$self" "$root/scripts/suite_apt.sh"; echo "$os_id"; readlink -f "$(command -v g++)"; } | sha256sum | cut -d' ' -f1
}
is_ready() { [ -f "$prefix/.stamp" ] && [ "$(cat "$prefix/.stamp")" = "$(stamp_key)" ]; }

mapfile -t missing < <(missing_tools)
if [ ${#missing[@]} = 0 ] && [ $refresh = 0 ] && is_ready; then exit 0; fi

case $os_id in
  "debian 12"|"debian 13") ;;
  *)
    if [ ${#missing[@]} -gt 0 ]; then
      hand "this is '$os_id'; only Debian 12 and 13 have been tried. Missing here: ${missing[*]} (CMake >= $cmake_needed)."
    fi
    say "this is '$os_id', where nothing has been tried: going on with the system's own libraries"
    exit 0 ;;
esac

# --- compiler and CMake: the only system-wide step -----------------------------------------------------------

if [ ${#missing[@]} -gt 0 ]; then
  line="apt-get install -y --no-install-recommends ${missing[*]}"
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
      as_root=(sudo -n)
    else
      hand "missing: ${missing[*]}. As root, once: apt-get update && $line"
    fi
  fi
  mkdir -p "$deps"
  say "installing ${missing[*]} with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get -q update > "$deps/apt-install.log" 2>&1 ||
    say "apt-get update had trouble (see .deps/apt-install.log); trying to install all the same"
  # shellcheck disable=SC2086
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $line >> "$deps/apt-install.log" 2>&1; then
    tail -n 8 "$deps/apt-install.log" >&2
    fail "could not install ${missing[*]} (offline?). The whole log: .deps/apt-install.log"
  fi
  mapfile -t missing < <(missing_tools)
  [ ${#missing[@]} = 0 ] || hand "apt-get installed no usable ${missing[*]} (CMake >= $cmake_needed is needed)"
fi

# --- one run at a time ---------------------------------------------------------------------------------------

if [ -e "$deps" ] && [ ! -w "$deps" ]; then
  fail "$deps belongs to $(stat -c %U "$deps"), who has to run this; or remove it"
fi
mkdir -p "$deps/debs" "$deps/built"
exec 9> "$deps/lock"
if ! flock -n 9; then
  say "another run is at work; waiting for it"
  flock 9
fi
if [ $refresh = 0 ] && is_ready; then exit 0; fi

started=$SECONDS
rm -rf "$deps"/tmp.*  # what an interrupted run left
tmp=$(mktemp -d "$deps/tmp.XXXXXX")
chmod 755 "$tmp"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

# --- packages ------------------------------------------------------------------------------------------------

suite=$(suite_codename)
debs=()

# Sets `debs` to the files of all packages, downloading what .deps/debs lacks.
fetch_packages() {
  local uris uri file size hash wanted=() bytes=0
  uris=$(suite_apt "$deps/apt" "$suite" -q --print-uris download "${packages[@]}" 2> "$tmp/apt.log") || return 1
  debs=()
  while read -r uri file size hash; do
    [[ $uri == \'* ]] || continue
    debs+=("$file")
    if [ ! -f "$deps/debs/$file" ] || ! same_hash "$deps/debs/$file" "$hash"; then
      wanted+=("${file%%_*}")
      bytes=$((bytes + size))
    fi
  done <<< "$uris"
  [ ${#debs[@]} = ${#packages[@]} ] || { echo "apt knows ${#debs[@]} of ${#packages[@]} packages" > "$tmp/apt.log"; return 1; }
  [ ${#wanted[@]} -gt 0 ] || return 0
  say "fetching ${#wanted[@]} packages, $((bytes / 1024)) KiB: ${wanted[*]}"
  mkdir -p "$tmp/debs"
  ( cd "$tmp/debs" && suite_apt "$deps/apt" "$suite" -q download "${wanted[@]}" ) > "$tmp/apt.log" 2>&1 || return 1
  mv "$tmp"/debs/*.deb "$deps/debs/"
}

same_hash() {  # same_hash FILE SHA256:HEX
  [[ $2 == SHA256:* ]] && [ "$(sha256sum < "$1" | cut -d' ' -f1)" = "${2#SHA256:}" ]
}

# Runs a fetch, once more with new lists when it fails (a mirror drops old versions), else says what it was at.
with_retry() {  # with_retry WHAT SUITE COMMAND..
  local what=$1 of_suite=$2; shift 2
  if "$@"; then return 0; fi
  say "fetching $what failed; renewing the package lists and trying once more"
  FORCE=1 suite_update "$deps/apt" "$of_suite" && "$@" && return 0
  { grep -E '^(E|Err|W|apt knows)' "$tmp/apt.log" 2> /dev/null || tail -n 5 "$tmp/apt.log"; } | tail -n 6 | sed 's/^/  /' >&2
  fail "could not fetch $what. Nothing was changed; run this again when the mirror answers."
}

lists_of() { echo "$deps/apt/$1/ready"; }
[ -f "$(lists_of "$suite")" ] || say "reading the package lists of $suite"
FORCE=$refresh suite_update "$deps/apt" "$suite" || fail "these lists are needed to fetch: ${packages[*]}"
with_retry "packages of $suite" "$suite" fetch_packages

stage=$tmp/prefix
mkdir -p "$stage/usr"
manifest=()
# Files of a package keep its old dates, which a build tool takes for "nothing new". What the last prefix did
# not have gets today's date, so that exactly its users are built again.
place() {  # place ENTRY FOLDER: moves an unpacked tree into the stage
  manifest+=("$1")
  grep -qxF "$1" "$prefix/MANIFEST" 2> /dev/null || find "$2" -type f -exec touch {} +
  cp -a "$2/." "$stage/"
}
for deb in "${debs[@]}"; do
  mkdir "$tmp/one"
  dpkg -x "$deps/debs/$deb" "$tmp/one" || fail "cannot unpack .deps/debs/$deb"
  place "$deb" "$tmp/one"
  rm -rf "$tmp/one"
done
# Links to shared libraries that are not here would be found first; manuals are of no use.
find "$stage" -name '*.so' -delete
rm -rf "$stage/usr/share/doc" "$stage/usr/share/man" "$stage/usr/share/lintian" "$stage"/usr/lib/*/libpcre2-{16,32,posix}.a
# Of ncurses only the terminal descriptions (libtinfo) are used.
rm -f "$stage"/usr/lib/*/lib{curses,form,menu,ncurses,panel}*.a

# --- source packages -----------------------------------------------------------------------------------------

# Fetches the newest orig tar ball of source package $1 into $tmp/src-$1; apt checks its hash.
fetch_source() {
  mkdir -p "$tmp/src-$1"
  ( cd "$tmp/src-$1" && suite_apt "$deps/apt" "$source_suite-src" -q --tar-only --download-only source "$1" ) > "$tmp/apt.log" 2>&1
}

# Leaves a static build of source package $1 in $built.
build_source() {
  local name=$1 key tar src flags
  flags=$(source_flags "$name")
  key=$( { echo "$name $source_suite $flags"; g++ --version; declare -f build_source; } | sha256sum | cut -c1-12)
  built=$deps/built/$name-$key
  if [ -d "$built" ]; then return 0; fi
  if [ ! -f "$(lists_of "$source_suite-src")" ]; then say "reading the source lists of $source_suite"; fi
  suite_update "$deps/apt" "$source_suite-src" || fail "these lists are needed to fetch the source package $name"
  with_retry "source package $name of $source_suite" "$source_suite-src" fetch_source "$name"
  tar=$(echo "$tmp/src-$name"/*.orig.tar.*)
  say "building $(basename "${tar%.orig.tar.*}" | tr _ ' ')"
  src=$tmp/src-$name/tree
  mkdir "$src"
  ( cd "$src" && cmake -E tar xf "$tar" ) || fail "cannot unpack $(basename "$tar")"
  src=$(dirname "$(find "$src" -maxdepth 2 -name CMakeLists.txt | head -n 1)")
  # shellcheck disable=SC2086
  if ! { env -u CXXFLAGS -u CFLAGS -u LDFLAGS -u DESTDIR cmake -S "$src" -B "$tmp/build-$name" -G Ninja \
           -DCMAKE_MAKE_PROGRAM="$stage/usr/bin/ninja" -DCMAKE_CXX_COMPILER=g++ -DCMAKE_BUILD_TYPE=Release \
           -DCMAKE_CXX_STANDARD=20 -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
           -DCMAKE_INSTALL_PREFIX="$tmp/out-$name/usr" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_PREFIX_PATH="$stage/usr" $flags &&
         cmake --build "$tmp/build-$name" -j "$(nproc)" &&
         cmake --install "$tmp/build-$name"; } > "$deps/build-$name.log" 2>&1; then
    tail -n 15 "$deps/build-$name.log" >&2
    fail "building $name failed; the whole log: .deps/build-$name.log"
  fi
  if [ "$name" = highway ]; then  # its contrib library is slow to build; its inline headers (math, dot) need none
    ( cd "$src" && find hwy/contrib -name '*-inl.h' -exec cp --parents {} "$tmp/out-$name/usr/include/" \; )
  fi
  find "$tmp/out-$name" -path '*/share/doc' -prune -exec rm -rf {} +
  rm -rf "$deps/built/$name"-*
  mv "$tmp/out-$name" "$built"
  rm -f "$deps/build-$name.log"
  rm -rf "$tmp/src-$name" "$tmp/build-$name"
}

for name in "${sources[@]}"; do
  build_source "$name"
  place "$(basename "$built")" "$built"
done

# --- into place ----------------------------------------------------------------------------------------------

printf '%s\n' "${manifest[@]}" > "$stage/MANIFEST"
stamp_key > "$stage/.stamp"
if [ -e "$prefix" ]; then mv "$prefix" "$tmp/old"; fi
mv "$stage" "$prefix"
say "ready in $((SECONDS - started)) s: ${prefix#"$root/"}, $(du -sm "$prefix" | cut -f1) MiB"
