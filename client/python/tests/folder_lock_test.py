"""The lock of a folder, with flock and without it."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from lorsa.errors import LorsaError
from lorsa.folder_lock import FolderInUseError, FolderLock, Lease

WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
KILLED = b"held 0000000123 by process 1 on elsewhere\n"


def refuse_flock(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    def flock(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", flock)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", WITHOUT_LOCKS)
def test_a_lease_stands_in_where_there_is_no_flock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    refuse_flock(monkeypatch, error)
    with (
        FolderLock(tmp_path / "lock", beat=0.02),
        pytest.raises(FolderInUseError, match=f"{tmp_path}.*by process {os.getpid()}"),
    ):
        FolderLock(tmp_path / "lock")
    with FolderLock(tmp_path / "lock"):
        assert names(tmp_path) == ["lock", "lock.owner-2"]


def test_another_error_of_flock_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_flock(monkeypatch, errno.EIO)
    with pytest.raises(LorsaError, match=f"{tmp_path}/lock cannot be locked"):
        FolderLock(tmp_path / "lock")


def test_a_killed_holder_of_a_lease_is_waited_for_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "lock.owner-7").write_bytes(KILLED)
    Lease.acquire(tmp_path / "lock", patience=0.3).close()
    assert names(tmp_path) == ["lock.owner-8"]
    assert (tmp_path / "lock.owner-8").read_bytes() == b"free\n"


def _hold(lease: Lease, connection: Connection) -> None:
    """Lives until it is told to end."""
    connection.send(lease is not None)
    connection.recv()


def test_a_process_that_was_started_with_a_lease_keeps_it(tmp_path: Path) -> None:
    """Also when the one that took it was killed: here it only stops to renew."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    lease = Lease.acquire(tmp_path / "lock", beat=0.02)
    process = context.Process(target=_hold, args=(lease, theirs))
    process.start()
    assert ours.recv()
    lease._closed.set()
    lease._thread.join()
    with pytest.raises(FolderInUseError, match=f"by process {process.pid}"):
        Lease.acquire(tmp_path / "lock", patience=30)
    ours.send("end")
    process.join()
    Lease.acquire(tmp_path / "lock", patience=0.3).close()


def test_a_holder_that_stood_still_ends_when_its_lease_was_taken(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    lease = Lease.acquire(tmp_path / "lock", beat=0.02)
    lease._closed.set()
    lease._thread.join()
    process = context.Process(target=_hold, args=(lease, theirs))
    process.start()
    assert ours.recv()
    (tmp_path / "lock.owner-2").write_bytes(KILLED)
    process.join(60)
    assert process.exitcode == 1
