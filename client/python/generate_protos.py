#!/usr/bin/env python3
"""Makes lorsa/v1, the messages and stubs of the API, from proto/lorsa/v1 of the repository.

Run when the package is built (setup.py) and by deploy/setup.sh; does nothing if lorsa/v1 is that of
the .proto files as they are. Needs grpcio-tools.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROTOS = HERE.parents[1] / "proto"
OUT = HERE / "lorsa" / "v1"
_STAMP = ".made_from"


def main() -> int:
    """Returns the exit code."""
    import grpc_tools
    from grpc_tools import protoc

    files = sorted((PROTOS / "lorsa" / "v1").glob("*.proto"))
    if not files:
        print(f"generate_protos: {PROTOS} holds no lorsa/v1/*.proto", file=sys.stderr)
        return 1
    stamp = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    if (OUT / _STAMP).exists() and (OUT / _STAMP).read_text() == stamp:
        return 0
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    kinds = [f"--{kind}_out={HERE}" for kind in ("python", "pyi", "grpc_python")]
    command = ["protoc", f"-I{PROTOS}", f"-I{well_known}", *kinds, *map(str, files)]
    if protoc.main(command) != 0:
        return 1
    (OUT / "__init__.py").write_text(
        '"""Messages and stubs of the API, made from its .proto files."""\n'
    )
    (OUT / _STAMP).write_text(stamp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
