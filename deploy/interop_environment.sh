#!/usr/bin/env bash
# Makes .venv-interop, the Python environment of the programs that Lorsa works with and is measured
# against (deploy/requirements-interop.txt), if it is not there or its requirements changed. Prints
# nothing else on stdout than the path of its Python.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=$(sha256sum < deploy/requirements-interop.txt)
if [[ $(cat .venv-interop/.installed 2>/dev/null) != "$wanted" ]]; then
  echo "interop: installing llamascopium, mlflow and others in .venv-interop" >&2
  # One that was never finished may be broken in any way.
  [[ -e .venv-interop/.installed ]] || /usr/bin/python3 -m venv --clear .venv-interop
  .venv-interop/bin/pip install -q -r deploy/requirements-interop.txt >&2
  echo "$wanted" > .venv-interop/.installed
fi
echo "$PWD/.venv-interop/bin/python"
