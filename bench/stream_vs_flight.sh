#!/usr/bin/env bash
# StreamSequences against Arrow Flight (pyarrow): a client on the same machine receives all of a
# synthetic bf16 set (1,024 sequences of 256 positions, d_model 576: 605 MB), over one stream, again
# and again; the servers take turns, each visit with a client process of its own. Last line:
# "ratio R", our MB/s over that of the peer's faster form, the median over the rounds.
#
# What each does. lorsad reads the HDF5 shards in the keyed order of a seed, with two reader threads,
# and checks each sequence's XXH3; our client fills the generated message. The peer has it easier:
# its server, of which nothing but the start is Python, sends record batches from a memory-mapped
# Arrow file written before, in stored order, and checks nothing. All files are in the page cache;
# no side compresses or encrypts. That both sent the same sequences is checked first.
#
# Usage: bench/stream_vs_flight.sh [--rounds N] [--passes N] [--sequences N]
# Builds what it needs in $LORSA_BUILD_DIR (default build/release) after deploy/setup.sh, and
# installs pyarrow from PyPI in .venv-interop.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${LORSA_BUILD_DIR:-build/release}
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build" > /dev/null
ninja -C "$build" lorsa lorsad stream_bench > /dev/null
peer=$(deploy/interop_environment.sh)
export LORSA_BIN_DIR=$build/bin PYTHONPATH=client/python:tests
exec "$peer" bench/stream_vs_flight.py "$@"
