# Steps of a tier (make test, make ci, make soak): each with its log, its time and its result. Sourced.
#
#   steps_begin TIER           logs go to build/TIER/NAME.log
#   step NAME COMMAND..        runs it; a failure ends the tier at once, or with keep_going=1 at steps_end
#   steps_end                  prints the times; exit 1 when a step failed
# shellcheck shell=bash

steps_begin() {
  tier=$1 logs=build/$1 table=() n_failed=0 tier_started=$SECONDS
  mkdir -p "$logs"
}

step() {
  local name=$1 started=$SECONDS rc=0; shift
  echo "=== $name"
  "$@" 2>&1 | tee "$logs/$name.log" || rc=$?
  table+=("$(printf '%5d s  %s%s' $((SECONDS - started)) "$name" "$([ $rc = 0 ] || echo '  FAILED')")")
  [ $rc != 0 ] || return 0
  n_failed=$((n_failed + 1))
  if [ "${keep_going:-}" != 1 ]; then steps_end; fi
}

steps_end() {
  echo "=== time of each step of make $tier"
  printf '%s\n' "${table[@]}"
  printf '%5d s  all\n' $((SECONDS - tier_started))
  [ "$n_failed" != 0 ] || return 0
  echo "$tier: $n_failed of ${#table[@]} steps failed; their output is in $logs" >&2
  exit 1
}
