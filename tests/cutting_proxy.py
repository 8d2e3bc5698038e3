"""A network that breaks: forwards connections to a server and cuts them after some bytes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable


class CuttingProxy:
    """Listens on `address` while the `with` block lasts.

    Connection number i is cut when `cuts[i]` bytes have gone over it, in either direction; later
    ones are not.
    """

    def __init__(self, server: str, cuts: Iterable[int]) -> None:
        self._server = server
        self._cuts = iter(cuts)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[_Connection] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def cut(self) -> int:
        """Connections that were."""
        return sum(each.was_cut for each in self._connections)

    @property
    def uncut_bytes(self) -> int:
        """Over connections that are not to be cut."""
        return sum(each.passed for each in self._connections if each.limit is None)

    def __enter__(self) -> CuttingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        _shut(self._listener)
        for each in self._connections:
            each.close()

    def _accept(self) -> None:
        host, port = self._server.rsplit(":", 1)
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection((host, int(port)))
            except ConnectionRefusedError:  # the server is not up just now
                _shut(client)
            except OSError:
                return
            else:
                connection = _Connection(client, server, next(self._cuts, None))
                self._connections.append(connection)


class _Connection:
    def __init__(self, client: socket.socket, server: socket.socket, limit: int | None) -> None:
        self.limit = limit  # bytes
        self.passed = 0
        self.was_cut = False
        self._sockets = (client, server)
        self._lock = threading.Lock()
        for pair in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            _shut(each)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                room = self._take(len(data))
                sink.sendall(data[:room])
                if room < len(data):
                    break
        self.close()

    def _take(self, size: int) -> int:
        """How many of `size` bytes still pass."""
        with self._lock:
            room = size if self.limit is None else min(size, self.limit - self.passed)
            self.passed += room
            self.was_cut |= room < size
            return room


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
