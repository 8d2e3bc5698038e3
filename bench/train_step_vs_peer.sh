#!/usr/bin/env bash
# The training step (forward, backward, Adam) against the peer's, llamascopium 2.0.0b34: time, peak
# memory, and where ours spends its time. Both run in turn, A B A B, each time in a new process, on
# the same number of threads. Last line: "ratio R", ours over the peer's faster mode in tokens per
# second, at Pythia-160M's size.
#
# Usage: bench/train_step_vs_peer.sh [--quick | --full] [--threads N]
#   --quick  the first size only, few steps; no growth tables
#   --full   also d 2048, H 16384, G 64, K 128, context 1024
# Builds what it needs in $LORSA_BUILD_DIR (default build/release) after deploy/setup.sh, and
# installs the peer from PyPI in .venv-interop.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${LORSA_BUILD_DIR:-build/release}
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build" > /dev/null
ninja -C "$build" step_bench > /dev/null
peer=$(deploy/interop_environment.sh)
exec "$peer" bench/train_step_vs_peer.py --ours "$build/bin/step_bench" --peer "$peer" "$@"
