"""Disks that really fill up (tests run as root)."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
from collections.abc import Iterator

from service import wait_for


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


@contextlib.contextmanager
def fragile_disk(folder: pathlib.Path, mebibytes: int) -> Iterator[pathlib.Path]:
    """The same on ext4, for `turn_read_only`."""
    folder.mkdir()
    image = _image(folder)
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    _mount(folder)
    (folder / "lost+found").rmdir()
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        image.unlink()


def turn_read_only(disk: pathlib.Path) -> None:
    """What ext4 does after an error of its device, with files open for writing. What was not yet
    fsynced is lost, as when the power fails.
    """
    source = subprocess.run(
        ["findmnt", "-no", "SOURCE", disk], check=True, capture_output=True, text=True
    ).stdout.strip()
    trigger = pathlib.Path("/sys/fs/ext4") / pathlib.Path(source).name / "trigger_fs_error"
    trigger.write_text("1")


def remount(disk: pathlib.Path, mode: str) -> None:
    """With the mode "ro" or "rw". A process that just ended may have its files open a little longer
    than its line in the table of processes, so a busy disk is tried again.
    """
    command = ["mount", "-o", f"remount,{mode}", disk]
    wait_for(f"a remount as {mode}", lambda: subprocess.run(command).returncode == 0)


def repair(disk: pathlib.Path) -> None:
    """What somebody does about it, once nobody uses it any more."""
    wait_for("the disk to be free", lambda: subprocess.run(["umount", disk]).returncode == 0)
    subprocess.run(["e2fsck", "-fy", _image(disk)], check=False, capture_output=True)
    _mount(disk)


def _image(disk: pathlib.Path) -> pathlib.Path:
    return disk.with_suffix(".ext4")


def _mount(disk: pathlib.Path) -> None:
    subprocess.run(["mount", "-o", "loop,errors=remount-ro", _image(disk), disk], check=True)
