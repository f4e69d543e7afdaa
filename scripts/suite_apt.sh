# Asks one Debian suite for packages without touching the machine's own apt state: private lists, cache
# and configuration below one folder, no root needed, nothing installed. Sourced by deps.sh and fresh_check.sh.
#
#   suite_mirrors CODENAME         one line "URI SUITE KEYRING VALID" for each Debian source of the machine
#   suite_update  DIR SUITE[-src]   fills DIR/SUITE with its package lists, DIR/SUITE-src with its source lists
#   suite_apt     DIR SUITE[-src] ARGS..   apt-get ARGS.. against these lists
#
# SUITE_APT_ARCH names another architecture than this machine's; its lists belong into a DIR of their own.
#
# Mirrors and keyrings come from the machine's own sources (.sources stanzas and one-line .list files), so a
# machine behind a local mirror stays behind it. Sources that are not Debian's own suites are left out.
# shellcheck shell=bash

# Where the machine's sources lie; a test points it at a fixture.
: "${SUITE_APT_ETC:=/etc/apt}"

suite_keyring() {
  local file
  for file in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
    if [ -r "$file" ]; then echo "$file"; return 0; fi
  done
  echo "no Debian archive keyring found: install debian-archive-keyring" >&2
  return 1
}

# Every "URI SUITE KEYRING VALID" of the machine that belongs to release $1 ("bookworm"), main first.
# A suite counts as Debian's when it is the release itself, -updates or -security, has a component main, and
# is signed by a Debian archive keyring (or names none, which leaves the choice to apt).
suite_mirrors() {
  local files=() file
  for file in "$SUITE_APT_ETC"/sources.list.d/*.sources; do
    if [ -r "$file" ]; then files+=("$file"); fi
  done
  for file in "$SUITE_APT_ETC"/sources.list "$SUITE_APT_ETC"/sources.list.d/*.list; do
    if [ -r "$file" ]; then files+=("$file"); fi
  done
  [ ${#files[@]} -gt 0 ] || return 0
  awk -v code="$1" -v fallback="$(suite_keyring)" '
    function emit(uri, suite, key, valid) {
      if (suite != code && suite != code "-updates" && suite != code "-security") return
      if (key != "" && key !~ /debian-archive/) return
      if (key == "" || key !~ /^\//) key = fallback
      if (!seen[uri " " suite]++) print (suite == code ? 0 : 1), uri, suite, key, valid
    }
    function flush_stanza(   i, n, m, suites, comps, uris, main_found) {
      if (field["types"] ~ /(^| )deb( |$)/ && tolower(field["enabled"]) !~ /^(no|false|0|off)$/) {
        m = split(field["components"], comps, " ")
        for (i = 1; i <= m; i++) if (comps[i] == "main") main_found = 1
        split(field["uris"], uris, " ")
        n = split(field["suites"], suites, " ")
        for (i = 1; main_found && i <= n; i++)
          emit(uris[1], suites[i], field["signed-by"],
               tolower(field["check-valid-until"]) ~ /^(no|false|0|off)$/ ? "no" : "yes")
      }
      split("", field); name = ""
    }
    FNR == 1 { flush_stanza(); stanza = FILENAME ~ /\.sources$/ }
    { sub(/\r$/, "") }
    /^[ \t]*#/ { next }
    stanza && /^[ \t]*$/ { flush_stanza(); next }
    stanza && /^[ \t]/ { sub(/^[ \t]+/, ""); field[name] = field[name] " " $0; next }
    stanza {
      colon = index($0, ":"); name = tolower(substr($0, 1, colon - 1))
      value = substr($0, colon + 1); gsub(/^[ \t]+|[ \t]+$/, "", value); field[name] = value; next
    }
    $1 == "deb" {
      sub(/#.*/, ""); line = $0; key = ""; valid = "yes"
      if (match(line, /\[[^]]*\]/)) {
        n = split(substr(line, RSTART + 1, RLENGTH - 2), opts, " ")
        for (i = 1; i <= n; i++) {
          if (opts[i] ~ /^signed-by=/) key = substr(opts[i], 11)
          if (opts[i] ~ /^check-valid-until=(no|false)$/) valid = "no"
        }
        line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
      }
      n = split(line, part, " ")
      for (i = 4; i <= n; i++) if (part[i] == "main") { emit(part[2], part[3], key, valid); break }
    }
    END { flush_stanza() }' "${files[@]}" | sort -s -k1,1n | cut -d' ' -f2-
}

# The release this machine runs: "bookworm", "trixie", or "" where os-release gives none.
suite_codename() {
  # shellcheck disable=SC1091
  ( . /etc/os-release 2>/dev/null; echo "${VERSION_CODENAME:-}" )
}

# Lists younger than a day are kept; FORCE=1 asks again. Old lists serve when the network does not answer.
suite_update() {
  local dir=$1/$2 suite=${2%-src} kind=deb own mirrors uri name key valid arch
  if [ "$2" != "$suite" ]; then kind=deb-src; fi
  own=$(suite_codename)
  mirrors=$(suite_mirrors "$own")
  if [ -z "$mirrors" ]; then
    echo "found no Debian source for '$own' in $SUITE_APT_ETC (looked at *.sources and *.list files)" >&2
    return 1
  fi
  # Another release is asked for at the mirror of this one.
  if [ "$suite" != "$own" ]; then
    mirrors=$(echo "$mirrors" | awk -v own="$own" -v suite="$suite" '$2 == own {$2 = suite; print; exit}')
  fi
  arch=${SUITE_APT_ARCH:-$(dpkg --print-architecture)}
  mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
  while read -r uri name key valid; do
    echo "$kind [arch=$arch signed-by=$key check-valid-until=$valid] $uri $name main"
  done <<< "$mirrors" > "$dir/sources.list.new"
  # The machine's configuration is read first (proxies!); what acts on the system afterwards is cleared.
  cat > "$dir/apt.conf" <<CONF
Dir::Etc::SourceList "$dir/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State::Lists "$dir/lists";
Dir::Cache "$dir/cache";
APT::Sandbox::User "root";
APT::Architecture "$arch";
#clear APT::Architectures;
APT::Architectures "$arch";
APT::Get::Show-Source-VCS "false";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::IndexTargets::deb-src::Contents-dsc::DefaultEnabled "false";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONF
  if cmp -s "$dir/sources.list.new" "$dir/sources.list" && [ -f "$dir/ready" ]; then
    rm "$dir/sources.list.new"
    if [ "${FORCE:-0}" != 1 ] && [ -n "$(find "$dir/ready" -mmin -1440)" ]; then return 0; fi
  else
    mv "$dir/sources.list.new" "$dir/sources.list"
    rm -f "$dir/ready"
  fi
  if suite_apt "$1" "$2" -q --error-on=any update > "$dir/update.log" 2>&1; then
    touch "$dir/ready"
  elif [ -f "$dir/ready" ]; then
    echo "the package lists of $2 could not be renewed (offline?); going on with the ones from" \
         "$(date -r "$dir/ready" '+%Y-%m-%d')" >&2
  else
    echo "could not read the package lists of $2 (offline?). The mirror said:" >&2
    grep -E '^(E|W|Err)' "$dir/update.log" | tail -n 6 | sed 's/^/  /' >&2
    return 1
  fi
}

suite_apt() {
  local dir=$1/$2; shift 2
  LC_ALL=C apt-get -c "$dir/apt.conf" "$@"
}
