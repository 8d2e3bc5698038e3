#!/usr/bin/env bash
# What watchers and downloads cost a job that trains: its tokens/s with 200 clients that follow it
# (WatchJob and StreamMetrics each) and 50 that download a file of its checkpoint, again and again,
# against its tokens/s without, in windows of one run that take turns. Every client has connections
# of its own. Last line: "cost_percent P", the median over the loaded windows, each against the quiet
# ones beside it.
#
# The job has the demo's size and trains with one thread on a synthetic set, so that on two cores one
# is left for lorsad and the clients, which run on the same machine, in one process. A download
# takes 1 MiB each second: as fast as they go, the clients' own work would be what is measured
# (--mib-per-second 0 does that).
#
# Usage: bench/load.sh [--watchers N] [--downloads N] [--mib-per-second R] [--pairs N] [--seconds S]
# Builds what it needs in $LORSA_BUILD_DIR (default build/release) after deploy/setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${LORSA_BUILD_DIR:-build/release}
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build" > /dev/null
ninja -C "$build" lorsad lorsa-worker stream_bench > /dev/null
export LORSA_BIN_DIR=$build/bin PYTHONPATH=client/python:tests
exec .venv/bin/python bench/load.py "$@"
