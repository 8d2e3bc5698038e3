#!/usr/bin/env bash
# What takes too long for every change: 200 faults under load, a minute for each fuzz target, and the
# sanitizers. Needs what deploy/setup.sh and deploy/build.sh made. Usage: nightly.sh [--seed S]
# The last line is "N passed, N failed"; the exit code is 0 only if none failed.
set -uo pipefail
cd "$(dirname "$0")/.."

export LORSA_FIXTURES=${LORSA_FIXTURES:-$PWD/tests/data/fixtures}
reports=build/nightly/reports
rm -rf "$reports"
mkdir -p "$reports"

# The build of PRESET, its C++ tests, and with its programs the tests across processes.
sanitized() {
  local preset=$1
  cmake --preset "$preset" --log-level=WARNING && cmake --build --preset "$preset" --parallel "$(nproc)" &&
    ctest --preset "$preset" --parallel 2 --output-junit "$PWD/$reports/$preset.xml"
}

tests/faults/run.sh --cycles 200 --junitxml "$PWD/$reports/faults.xml" "$@" || echo "faults: some failed"
tests/fuzz/run.sh --seconds 60 --junit "$PWD/$reports/fuzz.xml" || echo "fuzz: some failed"
sanitized asan || echo "asan: some tests failed"
sanitized tsan || echo "tsan: some tests failed"
LORSA_BIN_DIR=$PWD/build/asan/bin .venv/bin/python -m pytest -q tests/end_to_end \
  --junitxml "$reports/asan_end_to_end.xml" || echo "asan, end to end: some tests failed"

exec .venv/bin/python tests/count.py "$reports" faults fuzz asan tsan asan_end_to_end
