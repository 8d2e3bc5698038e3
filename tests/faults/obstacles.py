"""What stands in a server's way for a while, and then does not."""

from __future__ import annotations

import contextlib
import pathlib
import resource
import socket
import sqlite3
from collections.abc import Iterator


@contextlib.contextmanager
def held_catalog(data: pathlib.Path) -> Iterator[None]:
    """Another program is in the middle of writing the catalog."""
    path = data / "catalog.sqlite"
    with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as catalog:
        catalog.execute("BEGIN IMMEDIATE")
        yield
        catalog.execute("ROLLBACK")


@contextlib.contextmanager
def few_descriptors(pid: int, spare: int) -> Iterator[None]:
    """The process may open `spare` more at most."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(entry.name) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1 + spare, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def missing(program: pathlib.Path) -> Iterator[None]:
    """As while it is being replaced."""
    away = program.rename(program.with_name(f"{program.name}.away"))
    try:
        yield
    finally:
        away.rename(program)


@contextlib.contextmanager
def taken_port(address: str) -> Iterator[None]:
    """Another program listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen()
        yield
