"""Disks that really fill up (tests run as root)."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, mebibytes: int) -> Iterator[pathlib.Path]:
    """A file system of its own, mounted at the new `folder`."""
    folder.mkdir()
    options = f"size={mebibytes}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: pathlib.Path) -> pathlib.Path:
    """Takes up all that is left of it; the file to delete."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast
