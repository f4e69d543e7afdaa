#!/usr/bin/env bash
# Everything that is checked before a change lands, step by step, with the time of each. Stops at the first
# failure. Ends by repeating the closing lines of every test run.
#
#   scripts/ci.sh [--after-test]      --after-test: `make test` has just passed, begin with the step after it
#
# Logs: build/ci/STEP.log
set -euo pipefail

cd "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")"
logs=build/ci
mkdir -p "$logs"
table=()
ci_started=$SECONDS

step() {  # step NAME COMMAND..
  local name=$1 started=$SECONDS rc=0; shift
  echo "=== $name"
  "$@" 2>&1 | tee "$logs/$name.log" || rc=$?
  table+=("$(printf '%5d s  %s%s' $((SECONDS - started)) "$name" "$([ $rc = 0 ] || echo '  FAILED')")")
  if [ $rc != 0 ]; then
    report
    echo "ci: step '$name' failed; its output is in $logs/$name.log" >&2
    exit 1
  fi
}

report() {
  echo "=== time of each step"
  printf '%s\n' "${table[@]}"
  printf '%5d s  all\n' $((SECONDS - ci_started))
}

asan_suite() { make --no-print-directory build PRESET=asan && ctest --preset asan; }

if [ "${1:-}" != --after-test ]; then step test make --no-print-directory test; fi
step format make --no-print-directory format-check
step longer-tests ctest --preset release-ci  # labelled ci: too long for make test
step asan asan_suite

report
for log in "$logs"/asan.log "$logs"/longer-tests.log "$logs"/test.log; do
  if [ -f "$log" ]; then
    echo "=== $(basename "$log" .log)"
    grep -E 'tests passed|tests failed|Total Test time|No tests were found' "$log" || true
  fi
done
