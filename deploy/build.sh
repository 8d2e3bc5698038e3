#!/usr/bin/env bash
# Builds everything, or only the named targets, into build/release (programs in build/release/bin).
# Usage: deploy/build.sh [TARGET…]    deploy/build.sh programs builds no tests and no benchmarks.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release --log-level=WARNING
cmake --build --preset release --parallel "$(nproc)" --target "${@:-all}"
