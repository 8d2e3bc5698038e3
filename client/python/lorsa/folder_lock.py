"""One process at a time for a folder.

flock(2) where the file system has it; elsewhere a lease, by this protocol, which
base/folder_lease.cc speaks as well. LOCK is the lock file's path.

  1. Of LOCK.owner-1, LOCK.owner-2, … the one with the highest number says who holds the lease:
     "free", or "held TICK by process PID on HOST".
  2. Whoever wants the lease reads that text. Unless it is "free", it is read again until it changes
     (its holder lives) or has not changed for 30 s (its holder is gone).
  3. LOCK.owner-(N+1) is created. If it exists already, somebody was quicker: 1.
  4. The files of lower numbers are removed. The highest one stays, also when the lease is let go:
     no number is given twice.
  5. Every 5 s the holder writes another TICK. If its file is gone or there is one with the next
     number, the holder stood still for 30 s and lost its lease: it must write nothing more.
  6. To let go, the holder writes "free".
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import platform
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing import reduction
from pathlib import Path
from typing import Any

from lorsa.errors import LorsaError

BEAT_SECONDS = 5.0
PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.2
_FREE = b"free\n"
_MAX_TEXT_BYTES = 512
# What network and user-space file systems answer that have no locks.
_UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class FolderInUseError(LorsaError):
    """Another process holds the lock."""


class FolderLock:
    """Held until it is closed, or all processes that have it have ended.

    A process that is started with it as an argument holds the lock as well, until it ends.
    """

    def __init__(
        self, path: Path, beat: float = BEAT_SECONDS, patience: float = PATIENCE_SECONDS
    ) -> None:
        """Takes the lock file `path`, which is made if absent.

        FolderInUseError if another process has it. `beat` and `patience` are of the lease.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._hold: _Flock | Lease
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._hold = _Flock(descriptor)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise FolderInUseError(f"{path} is locked by another process.") from error
            if error.errno not in _UNSUPPORTED:
                raise LorsaError(f"{path} cannot be locked: {error.strerror}.") from error
            self._hold = Lease.acquire(path, beat, patience)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self._hold.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _inherited, (self._hold,)


def _inherited(hold: _Flock | Lease) -> FolderLock:
    lock = FolderLock.__new__(FolderLock)
    lock._hold = hold
    return lock


@dataclass
class _Flock:
    """The kernel lets go when the last descriptor is closed."""

    descriptor: int

    def close(self) -> None:
        os.close(self.descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        return _inherited_flock, (reduction.DupFd(self.descriptor),)


def _inherited_flock(descriptor: Any) -> _Flock:
    return _Flock(descriptor.detach())


class Lease:
    """A lease that this process holds, perhaps with others that it started."""

    def __init__(self, path: Path, number: int, beat: float = BEAT_SECONDS) -> None:
        """Of the lock file `path`; LOCK.owner-`number` is there."""
        self._path, self._number, self._beat = path, number, beat
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_closed, daemon=True)
        self._thread.start()

    @classmethod
    def acquire(
        cls, path: Path, beat: float = BEAT_SECONDS, patience: float = PATIENCE_SECONDS
    ) -> Lease:
        """FolderInUseError, naming the holder, if another process has the lease."""
        while True:
            numbers = _numbers(path)  # 1
            newest = max(numbers, default=0)
            try:
                if newest > 0:
                    _await_end_of_holder(_owner_file(path, newest), patience)  # 2
                _write(_owner_file(path, newest + 1), os.O_CREAT | os.O_EXCL, _held(0))  # 3
            except (FileNotFoundError, FileExistsError):
                continue  # another was quicker
            for number in numbers:
                _owner_file(path, number).unlink(missing_ok=True)  # 4
            return cls(path, newest + 1, beat)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        with contextlib.suppress(OSError):  # others wait then
            _write(_owner_file(self._path, self._number), 0, _FREE)  # 6

    def __reduce__(self) -> tuple[Any, ...]:
        return Lease, (self._path, self._number, self._beat)

    def _renew_until_closed(self) -> None:
        tick = 0
        while not self._closed.wait(self._beat):
            tick += 1
            try:
                self._renew(tick)
            except FileNotFoundError:
                self._lost()
            except OSError:
                continue  # it may pass, and is noticed as a loss if it lasts

    def _renew(self, tick: int) -> None:  # 5
        if _owner_file(self._path, self._number + 1).exists():
            raise FileNotFoundError
        _write(_owner_file(self._path, self._number), 0, _held(tick))

    def _lost(self) -> None:
        print(
            f"{self._path} was taken by another process, since this one stood still for too long; "
            "this one ends, so that they do not both write.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)


def _owner_file(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.owner-{number}")


def _numbers(path: Path) -> list[int]:
    prefix = f"{path.name}.owner-"
    names = [each.name.removeprefix(prefix) for each in path.parent.glob(f"{prefix}*")]
    return [int(name) for name in names if name.isdecimal()]


def _held(tick: int) -> bytes:
    # Of one length, so that a text is replaced by one write.
    return f"held {tick:010} by process {os.getpid()} on {platform.node()}\n".encode()


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_TEXT_BYTES)


def _write(path: Path, flags: int, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o644)
    try:
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _await_end_of_holder(path: Path, patience: float) -> None:
    """Step 2; FileNotFoundError if another has just taken the lease."""
    first = text = _read(path)
    deadline = time.monotonic() + patience
    while text == first != _FREE and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        text = _read(path)
    if text not in (first, _FREE):
        holder = text.decode(errors="replace").strip()
        raise FolderInUseError(f"{path.parent} is in use ({holder}).")
