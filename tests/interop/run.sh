#!/usr/bin/env bash
# Runs the tests against the real packages of the programs that Lorsa works with, in an environment
# of their own. Usage: tests/interop/run.sh [PYTEST_ARGUMENT…]
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$(deploy/interop_environment.sh)
export PYTHONPATH=$PWD/client/python:$PWD/client/python/tests:$PWD/tests
export LORSA_FIXTURES=${LORSA_FIXTURES:-$PWD/tests/data/fixtures}
# No package asks the network for anything.
export HF_HUB_OFFLINE=1 MLFLOW_DISABLE_TELEMETRY=true WANDB_MODE=offline TQDM_DISABLE=1
exec "$python" -m pytest -q --disable-warnings "$@" tests/interop
