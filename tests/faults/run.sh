#!/usr/bin/env bash
# Faults with the real binaries: a campaign of random kills under load, damaged bytes, disks that
# fill up or turn read-only, lost answers, slow clients.
# Usage: run.sh [--cycles N] [--seed S] [--junitxml FILE] [pytest's own options]
# Prints its seed; the last line is "N passed, N failed"; the exit code is 0 only if none failed.
set -uo pipefail
cd "$(dirname "$0")/../.."

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
seed=$((RANDOM << 15 | RANDOM)) report=$reports/faults.xml arguments=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --seed) seed=$2; shift 2 ;;
    --junitxml) report=$2; shift 2 ;;
    *) arguments+=("$1"); shift ;;
  esac
done

echo "seed $seed"
.venv/bin/python -m pytest -q tests/faults --long --seed "$seed" --junitxml "$report" "${arguments[@]}"
.venv/bin/python tests/count.py "$(dirname "$report")" "$(basename "$report" .xml)"
