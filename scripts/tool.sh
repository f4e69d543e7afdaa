#!/usr/bin/env bash
# Prints the command for a developer's tool of one fixed version, fetching it into .deps/tools when the machine
# has none: formatters and sanitizers must say the same on every machine. Debian packages, unpacked like those
# of deps.sh, with the shared libraries the machine lacks; nothing is installed.
#
#   scripts/tool.sh clang-format-19        ->  clang-format-19, or .deps/tools/clang-format-19/run
set -euo pipefail
umask 022

name=${1:?usage: scripts/tool.sh PACKAGE-NAMED-LIKE-ITS-PROGRAM}
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
deps=$root/.deps
dest=$deps/tools/$name
# shellcheck source=scripts/suite_apt.sh
. "$root/scripts/suite_apt.sh"
fail() { echo "tool: $*" >&2; exit 1; }

if command -v "$name" > /dev/null; then echo "$name"; exit 0; fi
if [ -x "$dest/run" ]; then echo "$dest/run"; exit 0; fi

mkdir -p "$deps/tools"
exec 9> "$deps/tools/lock"
flock 9
if [ -x "$dest/run" ]; then echo "$dest/run"; exit 0; fi
rm -rf "$deps"/tools/tmp.*
tmp=$(mktemp -d "$deps/tools/tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

suite=$(suite_codename)
suite_update "$deps/apt" "$suite" || fail "these lists are needed to fetch $name"
# What an installation would add to this machine, less interpreters that only helper scripts want.
if ! uris=$(suite_apt "$deps/apt" "$suite" -qq -y --no-install-recommends --print-uris -o Debug::NoLocking=1 \
              install "$name" 2> "$tmp/log"); then
  tail -n 5 "$tmp/log" >&2
  fail "$suite has no package $name"
fi
mapfile -t wanted < <(echo "$uris" | awk '/^\x27/ {sub(/_.*/, "", $2); if ($2 !~ /python|perl/) print $2}')
echo "tool: fetching ${wanted[*]}" >&2
if ! ( cd "$tmp" && suite_apt "$deps/apt" "$suite" -q download "${wanted[@]}" ) > "$tmp/log" 2>&1; then
  grep -E '^(E|Err)' "$tmp/log" | tail -n 5 >&2
  fail "could not fetch ${wanted[*]} (offline?)"
fi
mkdir "$tmp/root"
for deb in "$tmp"/*.deb; do dpkg -x "$deb" "$tmp/root"; done
rm -rf "$tmp/root/usr/share/doc" "$tmp/root/usr/share/man"
libs=$(find "$tmp/root" -name '*.so.*' -printf '%h\n' | sort -u | sed "s|^$tmp/root|\$here/root|" | paste -sd:)
cat > "$tmp/run" <<RUN
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")
LD_LIBRARY_PATH="$libs\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" exec "\$here/root/usr/bin/$name" "\$@"
RUN
chmod +x "$tmp/run"
"$tmp/run" --version > /dev/null 2> "$tmp/log" || { cat "$tmp/log" >&2; fail "$name does not start"; }
mkdir "$tmp/out"
mv "$tmp/root" "$tmp/run" "$tmp/out/"
rm -rf "$dest"
mv "$tmp/out" "$dest"
echo "$dest/run"
