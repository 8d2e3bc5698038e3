"""Idle connections that use up the descriptors of lorsad."""

from __future__ import annotations

import contextlib
import pathlib
import resource
import socket
import time
from collections.abc import Iterator

import pytest
from finished_job import SPEC
from lorsa.client import Client
from service import Service, wait_for

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # SETTINGS
ENDLESS = SPEC | {"tokens": 100_000_000}


@contextlib.contextmanager
def idle_connections(address: str, at_most: int) -> Iterator[list[socket.socket]]:
    """HTTP/2 connections without a call, until one is turned away or there are `at_most`."""
    host, port = address.rsplit(":", 1)
    connections: list[socket.socket] = []
    try:
        for _ in range(at_most):
            connection = socket.create_connection((host, int(port)), timeout=10)
            connections.append(connection)
            try:
                connection.sendall(PREFACE)
                if not connection.recv(1):  # the server's SETTINGS, or the end
                    break
            except OSError:
                break
        yield connections
    finally:
        for connection in connections:
            connection.close()


def reasons(client: Client) -> list[str]:
    return [condition.reason for condition in client.server_info().conditions]


@pytest.mark.parametrize("limit", [64, 128])
def test_idle_connections_are_bounded_and_leave_running_jobs_alone(
    tmp_path: pathlib.Path, limit: int
) -> None:
    """Jobs became WORKER_LOST though their workers lived; then nobody was let in any more."""
    with Service(tmp_path, "--max-running-jobs", "2") as service, Client(service.address) as client:
        service.add_set()
        client.submit(ENDLESS, "job")
        service.wait_for_state("job", "RUNNING")
        assert service.process is not None
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with idle_connections(service.address, at_most=limit) as connections:
            assert len(connections) < limit, "they are bounded"
            wait_for("the server to say so", lambda: "TOO_MANY_CONNECTIONS" in reasons(client))
            client.submit(SPEC, "second")  # who is in can go on: a worker is started, files opened
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:  # ten looks at the processes
                assert client.job("job").state == "RUNNING"
                time.sleep(0.5)
        assert service.state("job") == "RUNNING"  # a new connection
        wait_for("the condition to be over", lambda: not reasons(client))
        client.job("second").wait(120)
        assert service.job("job")["attempt"] == 1
