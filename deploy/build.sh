#!/usr/bin/env bash
# Builds everything into build/release (programs in build/release/bin).
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release --log-level=WARNING
cmake --build --preset release --parallel "$(nproc)"
