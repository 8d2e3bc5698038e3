"""harvest-state.json: the arguments of a harvest, so that a resumed one gives the same set.

Protocol of a harvest into a folder; each step is skipped if a previous run did it:
  1. take the folder's lock, which is free again when the process ends;
  2. write harvest-state.json, or refuse if it holds other arguments;
  3. write attention.safetensors of each layer;
  4. write shard 0 of each layer, then shard 1, … (shard_writer.py), or several shards at a time,
     one in each process (processes.py);
  5. seal each layer's set: checksums.h5, then manifest.json (sealing.py).
Sequences and batches depend on the arguments alone and no batch crosses a shard, so a shard that
is written again has the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lorsa.errors import LorsaError
from lorsa.files import read_bounded, write_atomically
from lorsa.folder_lock import FolderInUseError, FolderLock
from lorsa.manifest import TRANSFORMERS
from lorsa.strict_json import parse_object

FILE_NAME = "harvest-state.json"
LOCK_NAME = "harvest.lock"
_MAX_STATE_BYTES = 1 << 20
# What an argument was before there was a choice, and harvests did not write it down.
_BEFORE_THERE_WAS_A_CHOICE = {"hook_convention": TRANSFORMERS}


@contextmanager
def locked_folder(folder: Path) -> Iterator[FolderLock]:
    """Step 1; LorsaError if another harvest has the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FolderLock(folder / LOCK_NAME)
    except FolderInUseError as error:
        raise LorsaError(
            f"Another harvest is writing to {folder}; wait for it to end. {error}"
        ) from error
    with lock:
        yield lock


def remember_arguments(folder: Path, arguments: dict[str, Any]) -> None:
    """Step 2."""
    path = folder / FILE_NAME
    if not path.exists():
        if any(folder.glob("**/*.h5")) or any(folder.glob("**/manifest.json")):
            raise LorsaError(f"{folder} holds a set that no harvest began: pass another --out.")
        write_atomically(path, (json.dumps(arguments, indent=2) + "\n").encode())
        return
    before = _BEFORE_THERE_WAS_A_CHOICE | parse_object(
        read_bounded(path, _MAX_STATE_BYTES), str(path)
    )
    for key in [*arguments, *before]:
        if before.get(key) != arguments.get(key):
            raise LorsaError(
                f"{folder} was begun with {key} = {_show(before.get(key))}, not "
                f"{_show(arguments.get(key))}: repeat the first arguments or pass another --out."
            )


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "…"
