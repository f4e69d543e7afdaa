#!/usr/bin/env bash
# What make test does, with the time of each step: set up and build, convert the Nano model, run the test suite.
#
#   scripts/test.sh [PRESET]
#
# Logs: build/test/STEP.log
set -euo pipefail

cd "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")"
# shellcheck source=scripts/steps.sh
. scripts/steps.sh
preset=${1:-release}

steps_begin test
step build make --no-print-directory build PRESET="$preset"
step nano make --no-print-directory nano PRESET="$preset"
step suite ctest --preset "$preset"
steps_end
