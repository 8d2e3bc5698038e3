#!/usr/bin/env bash
# The metric history of a week-long job: ten million training points of 22 values are stored through
# the catalog as a worker's batches are; then a real lorsad is asked for them, thinned and exact.
# Prints what that takes in time, disk and memory. Last line: "slowest_ms T", of all the answers.
#
# Usage: bench/metric_history.sh [--points N] [--repeats N]
# Needs 7 GB in $TMPDIR. Builds what it needs in $LORSA_BUILD_DIR (default build/release) after
# deploy/setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${LORSA_BUILD_DIR:-build/release}
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build" > /dev/null
ninja -C "$build" lorsad metric_history_bench > /dev/null
export LORSA_BIN_DIR=$build/bin PYTHONPATH=client/python:tests
exec .venv/bin/python bench/metric_history.py "$@"
