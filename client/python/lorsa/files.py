"""Durable files: a reader sees a published file whole or not at all, also after a power cut.

Protocol of every write:
  1. write `NAME.tmp` beside its destination and fsync it;
  2. rename it to NAME;
  3. fsync the folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lorsa.errors import LorsaError

TEMPORARY_SUFFIX = ".tmp"


def temporary_path(path: Path) -> Path:
    """Where a file is written before `publish` gives it its name."""
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def publish(path: Path) -> None:
    """Steps 1 (fsync) to 3 for a file that was written to `temporary_path(path)` and closed."""
    temporary = temporary_path(path)
    fsync(temporary)
    temporary.rename(path)
    fsync(path.parent)


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces `path` by `content`, or leaves what was there."""
    temporary_path(path).write_bytes(content)
    publish(path)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name when the `with` block ends without an exception.

    LorsaError if `path` exists already, unless it is an empty folder.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise LorsaError(f"{path} exists already: name a folder that does not.")
    temporary = temporary_path(path)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for each in sorted(temporary.rglob("*"), reverse=True):  # what a folder holds before it
        fsync(each)
    publish(path)


def read_bounded(path: Path, limit: int) -> bytes:
    """The bytes of a file of at most `limit` bytes; LorsaError if it is missing or larger."""
    if not path.is_file():
        raise LorsaError(f"{path} is missing.")
    if (size := path.stat().st_size) > limit:
        raise LorsaError(f"{path} has {size} bytes; at most {limit} are accepted.")
    return path.read_bytes()


def sha256_of(path: Path) -> str:
    """sha256 of a file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fsync(path: Path) -> None:
    """Makes a file's bytes, or a folder's names, durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
