#!/usr/bin/env bash
# Proves the two commands of the README on a machine that has nothing: puts a minimal Debian (plus git and make)
# into a folder, clones the committed tree into it and runs them there, first as root, then as an ordinary user.
#
#   scripts/fresh_check.sh [12] [13] [--test] [--deps-only] [--keep]
#
#   12 13        which Debian releases; both when none is given
#   --test       `make test` too (minutes), not only `make run`
#   --deps-only  only scripts/deps.sh
#   --keep       leave the folders in .deps/fresh for a look
#
# Needs root. Mirror and keyring are those of this machine. Everything happens in mount and process namespaces of
# its own, so no mount and no process is left behind however this ends. Exit 0: all passed.
set -euo pipefail
umask 022

self=$(readlink -f "${BASH_SOURCE[0]}")
root=$(dirname "$(dirname "$self")")
# shellcheck source=scripts/suite_apt.sh
. "$root/scripts/suite_apt.sh"

say()  { echo "fresh: $*"; }
fail() { echo "fresh: $*" >&2; exit 1; }

releases=() run_test=0 deps_only=0 keep=0
for arg in "$@"; do
  case $arg in
    12|13) releases+=("$arg") ;;
    --test) run_test=1 ;;
    --deps-only) deps_only=1 ;;
    --keep) keep=1 ;;
    *) sed -n '2,13s/^# \{0,1\}//p' "$self"; exit 2 ;;
  esac
done
[ ${#releases[@]} -gt 0 ] || releases=(12 13)

[ "$(id -u)" = 0 ] || { echo "fresh: needs root: a chroot is made" >&2; exit 2; }
if [ "${FRESH_INSIDE:-0}" != 1 ]; then
  FRESH_INSIDE=1 exec unshare --mount --pid --fork --kill-child --mount-proc --propagation private bash "$self" "$@"
fi

top=$root/.deps/fresh
logs=$top/logs
mkdir -p "$logs"
exec 9> "$top/lock"
flock -n 9 || fail "another run is at work in .deps/fresh"
results=()

# --- debootstrap: the machine's, or one that is only unpacked ------------------------------------------------

get_debootstrap() {
  if command -v debootstrap > /dev/null; then
    debootstrap=(debootstrap)
    return
  fi
  local dir=$top/debootstrap
  if [ ! -x "$dir/usr/sbin/debootstrap" ]; then
    say "fetching debootstrap"
    rm -rf "$dir" "$top/deb"
    mkdir -p "$top/deb"
    suite_update "$root/.deps/apt" "$(suite_codename)" || fail "cannot fetch debootstrap"
    ( cd "$top/deb" && suite_apt "$root/.deps/apt" "$(suite_codename)" -q download debootstrap wget ) \
      > "$logs/debootstrap.log" 2>&1 || fail "cannot fetch debootstrap; see $logs/debootstrap.log"
    dpkg -x "$top"/deb/debootstrap_*.deb "$dir.new"
    command -v wget > /dev/null || dpkg -x "$top"/deb/wget_*.deb "$dir.new"
    mv "$dir.new" "$dir"
    rm -rf "$top/deb"
  fi
  debootstrap=(env "DEBOOTSTRAP_DIR=$dir/usr/share/debootstrap" "PATH=$PATH:$dir/usr/bin:/usr/sbin:/sbin"
               "$dir/usr/sbin/debootstrap")
}

# --- one machine ---------------------------------------------------------------------------------------------

codename() { case $1 in 12) echo bookworm ;; 13) echo trixie ;; esac; }

# The mirrors of this machine with the release replaced: "URI SUITE KEYRING VALID" lines.
mirrors_for() {
  local own; own=$(suite_codename)
  suite_mirrors "$own" | sed "s/ $own/ $1/"
}

make_machine() {  # make_machine RELEASE FOLDER
  local code dir=$2 uri suite key valid proxy
  code=$(codename "$1")
  read -r uri suite key valid < <(mirrors_for "$code")
  [ -n "${uri:-}" ] || fail "no Debian source on this machine to take the mirror from"
  mkdir -p "$top/cache-$code"
  "${debootstrap[@]}" --variant=minbase --include=git,make --keyring="$key" --cache-dir="$top/cache-$code" \
    "$code" "$dir" "$uri" > "$logs/$code-debootstrap.log" 2>&1 ||
    { tail -n 5 "$logs/$code-debootstrap.log" >&2; fail "debootstrap of $code failed; see $logs/$code-debootstrap.log"; }
  # 12 gets one-line sources, 13 stanzas, as their installers write them: deps.sh has to read both.
  rm -f "$dir"/etc/apt/sources.list "$dir"/etc/apt/sources.list.d/*
  while read -r uri suite key valid; do
    if [ "$1" = 12 ]; then
      echo "deb $uri $suite main" >> "$dir/etc/apt/sources.list"
    else
      printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n' "$uri" "$suite" \
        "$(basename "$key" | sed 's|^|/usr/share/keyrings/|')" >> "$dir/etc/apt/sources.list.d/debian.sources"
    fi
  done < <(mirrors_for "$code")
  cp /etc/resolv.conf /etc/hosts "$dir/etc/" 2> /dev/null || true
  proxy=$(apt-config dump | grep -E '^Acquire::https?::Proxy ' || true)
  [ -z "$proxy" ] || echo "$proxy" > "$dir/etc/apt/apt.conf.d/80proxy"
  mount -t proc proc "$dir/proc"
  mount -t tmpfs -o mode=755 dev "$dir/dev"
  for node in null zero full random urandom; do
    touch "$dir/dev/$node"
    mount --bind "/dev/$node" "$dir/dev/$node"
  done
  ln -s /proc/self/fd "$dir/dev/fd"
  mkdir -m 1777 "$dir/dev/shm"
  mount -t tmpfs -o mode=1777 shm "$dir/dev/shm"
  chroot "$dir" useradd --create-home --shell /bin/bash tester
  git -C "$root" bundle create "$dir/repo.bundle" HEAD > /dev/null 2>&1 || fail "cannot bundle HEAD"
  chmod 644 "$dir/repo.bundle"
}

# inside FOLDER USER SHELL-COMMAND: an environment as bare as a new login's.
inside() {
  local user=(--userspec=root) home=/root
  if [ "$2" = tester ]; then user=(--userspec=tester:tester) home=/home/tester; fi
  chroot "${user[@]}" "$1" /usr/bin/env -i HOME="$home" USER="$2" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    bash -c "cd $home && $3" < /dev/null
}

check() {  # check RELEASE FOLDER USER NAME SHELL-COMMAND [EXPECTED-EXIT [EXPECTED-TEXT]]
  local log=$logs/$1-$3-$4.log expected=${6:-0} text=${7:-} rc=0 started=$SECONDS verdict=PASS
  say "Debian $1, $3: $4"
  inside "$2" "$3" "$5" > "$log" 2>&1 || rc=$?
  if [ "$rc" != "$expected" ]; then verdict="FAIL (exit $rc)"; fi
  if [ -n "$text" ] && ! grep -qF -- "$text" "$log"; then verdict="FAIL (no '$text' in the output)"; fi
  tail -n 6 "$log" | sed 's/^/    /'
  results+=("$(printf 'Debian %s  %-6s  %-12s %5d s  %s' "$1" "$3" "$4" $((SECONDS - started)) "$verdict")")
  [ "$verdict" = PASS ] || { say "$verdict; the whole output: $log"; return 1; }
}

check_release() {
  local dir=$top/debian-$1 go="cd dwarfstar &&"
  rm -rf --one-file-system "$dir"
  say "Debian $1: making a minimal machine"
  make_machine "$1" "$dir"
  for user in tester root; do
    inside "$dir" "$user" "git clone -q /repo.bundle dwarfstar 2> /dev/null" || fail "clone failed as $user"
  done
  # Without a compiler and without root: one line says what to do.
  check "$1" "$dir" tester no-compiler "$go scripts/deps.sh" 2 "apt-get install -y --no-install-recommends g++ cmake" || return 0
  for user in root tester; do
    check "$1" "$dir" $user deps "$go scripts/deps.sh" || return 0
    check "$1" "$dir" $user deps-again "$go t=\$(date +%s%N); scripts/deps.sh; t=\$(( (\$(date +%s%N) - t) / 1000000 )); echo \"\$t ms\"; [ \$t -lt 1000 ]" || return 0
    if [ $deps_only = 1 ]; then continue; fi
    check "$1" "$dir" $user make-run "$go make run" || return 0
    check "$1" "$dir" $user run-again "$go make run PROMPT='What is 2 + 2?'" || return 0
    if [ $run_test = 1 ]; then
      check "$1" "$dir" $user make-test "$go make test" 0 "tests passed" || return 0
    fi
  done
}

get_debootstrap
for release in "${releases[@]}"; do
  check_release "$release"
  if [ $keep = 0 ]; then
    # The mounts are in this namespace; a folder is removed only once none is left in it.
    for mounted in $(awk -v dir="$top/debian-$release/" 'index($2, dir) == 1 {print $2}' /proc/self/mounts | sort -r); do
      umount "$mounted" || true
    done
    rm -rf --one-file-system "$top/debian-$release" || true
  fi
done

say "results"
printf '  %s\n' "${results[@]}"
if printf '%s\n' "${results[@]}" | grep -q FAIL; then echo FAIL; exit 1; fi
echo PASS
