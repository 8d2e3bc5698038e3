#!/usr/bin/env bash
# Runs the unit tests, and with the real binaries tests/integration and tests/end_to_end, under
# AddressSanitizer and UndefinedBehaviorSanitizer; and the unit tests of what knows neither torch,
# gRPC nor SQLite, which Debian's packages do not instrument, under ThreadSanitizer. Left out: a test
# that measures memory, one under mpirun, whose plugins leak, and, of ThreadSanitizer, one that flips
# bits, after which libhdf5 reads beyond its buffers. Needs what deploy/setup.sh made.
# Usage: tests/sanitizers/run.sh [--reports FOLDER] [asan|tsan]…
# The last line is "N passed, N failed"; the exit code is 0 only if none failed.
set -uo pipefail
cd "$(dirname "$0")/../.."

reports=build/sanitizer-reports presets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --reports) reports=$2; shift 2 ;;
    *) presets+=("$1"); shift ;;
  esac
done
[[ ${#presets[@]} -gt 0 ]] || presets=(asan tsan)
mkdir -p "$reports"

# The build of a preset, and its C++ tests.
unit_tests() {
  cmake --preset "$1" --log-level=WARNING && cmake --build --preset "$1" --parallel "$(nproc)" &&
    ctest --preset "$1" --parallel 2 --output-junit "$(realpath "$reports")/$1.xml"
}

# Python is not instrumented, and leaves memory behind on purpose.
with_binaries() {
  LORSA_BIN_DIR=$PWD/build/asan/bin ASAN_OPTIONS=detect_leaks=0 .venv/bin/python -m pytest -q \
    --junitxml "$reports/$1.xml" "tests/$1"
}

runners=()
for preset in "${presets[@]}"; do
  runners+=("$preset")
  unit_tests "$preset" || echo "$preset: some tests failed"
  [[ $preset == asan ]] || continue
  runners+=(integration end_to_end)
  with_binaries integration || echo "integration: some tests failed"
  with_binaries end_to_end || echo "end_to_end: some tests failed"
done
exec .venv/bin/python tests/count.py "$reports" "${runners[@]}"
