#!/usr/bin/env bash
# What a restore in place loses: backs the catalog up in the middle of a job, trains on (this job to
# its end, another that the backup does not know), stops the server, restores the backup into the
# same folder, and starts. Then every checkpoint that was published must be listed and download with
# the sha256 of each of its files. Last line: "lost N", the checkpoints of which that is not so.
#
# Usage: bench/restore_in_place.sh [--tokens N] [--keep N]
# Builds what it needs in $LORSA_BUILD_DIR (default build/release) after deploy/setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${LORSA_BUILD_DIR:-build/release}
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build" > /dev/null
ninja -C "$build" lorsad lorsa-worker lorsa > /dev/null
export LORSA_BIN_DIR=$build/bin PYTHONPATH=client/python:tests
exec .venv/bin/python bench/restore_in_place.py "$@"
