"""A client of HTTP/2 that no client library would be: it asks, and takes nothing of the answers."""

from __future__ import annotations

import select
import socket
import struct
import time

import h2.config
import h2.connection
import h2.events
import h2.settings

CALLS_PER_CONNECTION = 900


class UnreadCalls:
    """One connection whose streams have a window of 0 bytes."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.address = address
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.h2.local_settings = h2.settings.Settings(
            client=True,
            initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0},
        )
        self.h2.initiate_connection()
        self.open = 0
        # grpc-status and grpc-message of each call that ended
        self.endings: list[tuple[int, str]] = []
        self._flush()

    def call(self, method: str, request: bytes) -> None:
        """Begins a call: "lorsa.v1.MetricService/StreamMetrics"."""
        stream = self.h2.get_next_available_stream_id()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", f"/{method}"),
            (":authority", self.address),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]
        self.h2.send_headers(stream, headers)
        self.h2.send_data(stream, struct.pack("!BI", 0, len(request)) + request, end_stream=True)
        self.open += 1
        self._flush()

    def pump(self, seconds: float) -> None:
        """Handles what the server sends, for at least that long if it sends nothing."""
        end = time.monotonic() + seconds
        while select.select([self.socket], [], [], max(0.0, end - time.monotonic()))[0]:
            data = self.socket.recv(1 << 16)
            if not data:
                return
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                    self._note(dict(event.headers or []))
            self._flush()

    def close(self) -> None:
        self.socket.close()

    def _note(self, headers: dict[str, str]) -> None:
        if "grpc-status" in headers:
            self.open -= 1
            self.endings.append((int(headers["grpc-status"]), headers.get("grpc-message", "")))

    def _flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())
