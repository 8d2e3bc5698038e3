#!/usr/bin/env bash
# Makes .venv-peer, the Python environment of the peer (bench/requirements-peer.txt), if it is not
# there or its requirements changed. Prints nothing else on stdout than the path of its Python.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=$(sha256sum < bench/requirements-peer.txt)
if [[ ! -x .venv-peer/bin/python || $(cat .venv-peer/.installed 2>/dev/null) != "$wanted" ]]; then
  echo "peer: installing llamascopium in .venv-peer" >&2
  rm -rf .venv-peer
  /usr/bin/python3 -m venv .venv-peer
  .venv-peer/bin/pip install -q -r bench/requirements-peer.txt >&2
  echo "$wanted" > .venv-peer/.installed
fi
echo "$PWD/.venv-peer/bin/python"
