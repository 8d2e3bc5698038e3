#!/usr/bin/env bash
# Whether lorsad's memory stays flat: 10,000 requests of every kind in turn, answered, refused and
# left half-way, by one client to a real lorsad with a finished and a paused job on a small set. Its
# resident memory is read after each 500. Last line: "growth_percent P", the last three figures over
# the first three, after a warm-up of 2,000 requests.
#
# Usage: bench/memory.sh [--requests N] [--warm-up N]
# Builds what it needs in $LORSA_BUILD_DIR (default build/release) after deploy/setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${LORSA_BUILD_DIR:-build/release}
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build" > /dev/null
ninja -C "$build" lorsad lorsa-worker > /dev/null
export LORSA_BIN_DIR=$build/bin PYTHONPATH=client/python:tests
exec .venv/bin/python bench/memory.py "$@"
