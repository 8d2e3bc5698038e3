#!/usr/bin/env bash
# Builds everything, or only the named targets, into build/release (programs in build/release/bin).
# Usage: deploy/build.sh [TARGET…]    deploy/build.sh programs builds no tests and no benchmarks, and
# needs only what deploy/setup.sh programs installed.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=ON
[[ $* == programs ]] && tests=OFF
cmake --preset release --log-level=WARNING -DBUILD_TESTING=$tests
cmake --build --preset release --parallel "$(nproc)" --target "${@:-all}"
