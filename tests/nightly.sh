#!/usr/bin/env bash
# What takes too long for every change: 200 faults under load, all attacks, a minute for each fuzz
# target, and the sanitizers. Needs what deploy/setup.sh and deploy/build.sh made. Usage: nightly.sh [--seed S]
# The last line is "N passed, N failed"; the exit code is 0 only if none failed.
set -uo pipefail
cd "$(dirname "$0")/.."

export LORSA_FIXTURES=${LORSA_FIXTURES:-$PWD/tests/data/fixtures}
reports=build/nightly/reports
rm -rf "$reports"
mkdir -p "$reports"

tests/faults/run.sh --cycles 200 --junitxml "$PWD/$reports/faults.xml" "$@" || echo "faults: some failed"
.venv/bin/python -m pytest -q tests/attacks --long --junitxml "$PWD/$reports/attacks.xml" || echo "attacks: some failed"
tests/fuzz/run.sh --seconds 60 --junit "$PWD/$reports/fuzz.xml" || echo "fuzz: some failed"
tests/sanitizers/run.sh --reports "$reports" || echo "sanitizers: some failed"

exec .venv/bin/python tests/count.py "$reports" faults attacks fuzz asan integration end_to_end tsan
