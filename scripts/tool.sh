#!/usr/bin/env bash
# Prints the command for a developer's tool of one fixed version, fetching it into .deps/tools when the machine
# has none: formatters and sanitizers must say the same on every machine. Debian packages, unpacked like those
# of deps.sh, with the shared libraries the machine lacks; nothing is installed.
#
#   scripts/tool.sh clang-format-19                ->  clang-format-19, or .deps/tools/clang-format-19/run
#   scripts/tool.sh clang-19 [clang++-19 | llvm-symbolizer-19]
#                                                  ->  a clang that has the runtimes of its sanitizers and of
#                                                      libFuzzer, or a program that comes with it
#   scripts/tool.sh aarch64-linux-gnu-g++ [aarch64-linux-gnu-{gcc,ar,ranlib} | qemu-aarch64]
#                                                  ->  a cross compiler for 64-bit Arm, or what comes with it:
#                                                      qemu-aarch64 runs what it has built
set -euo pipefail
umask 022

name=${1:?usage: scripts/tool.sh PACKAGE-NAMED-LIKE-ITS-PROGRAM [PROGRAM]}
program=${2:-$name}
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
deps=$root/.deps
dest=$deps/tools/$name
# shellcheck source=scripts/suite_apt.sh
. "$root/scripts/suite_apt.sh"
fail() { echo "tool: $*" >&2; exit 1; }

# What is asked for besides the package, and which further programs get a command.
packages=("$name")
programs=("$name")
case $name in
  clang-19)
    packages+=(libclang-common-19-dev libclang-rt-19-dev llvm-19)
    programs+=(clang++-19 llvm-symbolizer-19) ;;
  aarch64-linux-gnu-g++)
    packages=(g++-aarch64-linux-gnu qemu-user)
    programs+=(aarch64-linux-gnu-gcc aarch64-linux-gnu-ar aarch64-linux-gnu-ranlib qemu-aarch64) ;;
esac
if [[ " ${programs[*]} " != *" $program "* ]]; then fail "no program $program in $name"; fi

# Debian has a compiler's runtimes in a package of their own, so a machine may have one without the other.
installed() {
  local each
  for each in "${programs[@]}"; do command -v "$each" > /dev/null || return 1; done
  case $name in
    clang-19) compgen -G "$(clang-19 -print-resource-dir)/lib/*/libclang_rt.fuzzer*.a" > /dev/null ;;
  esac
}

command_of() { if [ "$program" = "$name" ]; then echo "$dest/run"; else echo "$dest/bin/$program"; fi; }

if installed; then echo "$program"; exit 0; fi
if [ -x "$dest/run" ]; then command_of; exit 0; fi

mkdir -p "$deps/tools"
exec 9> "$deps/tools/lock"
flock 9
if [ -x "$dest/run" ]; then command_of; exit 0; fi
rm -rf "$deps"/tools/tmp.*
tmp=$(mktemp -d "$deps/tools/tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

suite=$(suite_codename)
suite_update "$deps/apt" "$suite" || fail "these lists are needed to fetch $name"
# What an installation would add to this machine, less interpreters that only helper scripts want.
if ! uris=$(suite_apt "$deps/apt" "$suite" -qq -y --no-install-recommends --print-uris -o Debug::NoLocking=1 \
              install "${packages[@]}" 2> "$tmp/log"); then
  tail -n 5 "$tmp/log" >&2
  fail "$suite has not all of: ${packages[*]}"
fi
mapfile -t wanted < <({ printf '%s\n' "${packages[@]}"
                        echo "$uris" | awk '/^\x27/ {sub(/_.*/, "", $2); if ($2 !~ /python|perl/) print $2}'
                      } | sort -u)
echo "tool: fetching ${wanted[*]}" >&2
if ! ( cd "$tmp" && suite_apt "$deps/apt" "$suite" -q download "${wanted[@]}" ) > "$tmp/log" 2>&1; then
  grep -E '^(E|Err)' "$tmp/log" | tail -n 5 >&2
  fail "could not fetch ${wanted[*]} (offline?)"
fi
mkdir "$tmp/root"
for deb in "$tmp"/*.deb; do dpkg -x "$deb" "$tmp/root"; done
rm -rf "$tmp/root/usr/share/doc" "$tmp/root/usr/share/man"
if [ "$name" = clang-19 ]; then  # of LLVM's sixty programs three are used
  find "$tmp/root/usr/lib/llvm-19/bin" ! -type d ! -name 'clang*' ! -name 'llvm-symbolizer' -delete
fi
if [ "$name" = aarch64-linux-gnu-g++ ]; then  # of QEMU's thirty machines one
  find "$tmp/root/usr/bin" -name 'qemu-*' ! -name 'qemu-aarch64' -delete
fi
libs=$(find "$tmp/root" -name '*.so.*' -printf '%h\n' | sort -u | sed "s|^$tmp/root|\$here/root|" | paste -sd:)
mkdir -p "$tmp/bin"
for each in "${programs[@]}"; do
  if [ "$each" = "$name" ]; then file=$tmp/run up=; else file=$tmp/bin/$each up=/..; fi
  cat > "$file" <<RUN
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")$up
LD_LIBRARY_PATH="$libs\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" exec "\$here/root/usr/bin/$each" "\$@"
RUN
  chmod +x "$file"
  "$file" --version > /dev/null 2> "$tmp/log" || { cat "$tmp/log" >&2; fail "$each does not start"; }
done
mkdir "$tmp/out"
mv "$tmp/root" "$tmp/run" "$tmp/bin" "$tmp/out/"
rm -rf "$dest"
mv "$tmp/out" "$dest"
command_of
