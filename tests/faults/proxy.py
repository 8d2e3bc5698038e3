"""A TCP connection that misbehaves."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Passes connections on to `target` (HOST:PORT), and spoils them when asked to. Use `with`."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._mu = threading.Lock()
        self._open: set[socket.socket] = set()
        self._swallows_answers = False
        self._is_black_hole = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def swallow_answers(self) -> None:
        """From now on requests arrive and their answers do not."""
        self._swallows_answers = True

    def be_a_black_hole(self) -> None:
        """From now on nothing passes in either direction, and no connection is closed."""
        self._is_black_hole = True

    def cut(self) -> None:
        """Resets every connection; later ones pass everything again."""
        with self._mu:
            connections, self._open = self._open, set()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._swallows_answers = self._is_black_hole = False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(self._target)
            except OSError:  # nobody listens there just now
                client.close()
                continue
            with self._mu:
                self._open |= {client, server}
            for source, sink, is_answer in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=self._pass_on, args=(source, sink, is_answer), daemon=True
                ).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self._is_black_hole and not (is_answer and self._swallows_answers):
                    sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        source.close()
        with self._mu:
            self._open.discard(source)
