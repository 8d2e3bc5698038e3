"""A start of lorsad that fails leaves the workers of the server before it alone."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from finished_job import SPEC
from lorsa.client import Client
from service import Service, run_lorsad, wait_for

ENDLESS: dict[str, Any] = SPEC | {"tokens": 100_000_000}


@pytest.fixture
def crashed(tmp_path: pathlib.Path) -> Iterator[Service]:
    """A server that was killed while its job `runs` trained; the worker lives."""
    with Service(tmp_path) as service:
        service.add_set()
        with Client(service.address) as client:
            client.submit(ENDLESS, "runs")
        wait_for("steps", lambda: service.job("runs").get("progress", {}).get("step"))
        service.kill()
        yield service


@contextlib.contextmanager
def occupied_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("flag", ["--metrics-listen", "--listen"])
def test_a_start_on_an_occupied_port_leaves_the_workers_alone(crashed: Service, flag: str) -> None:
    """It drained them, or waited 120 s for those that did not find it."""
    pids = crashed.worker_pids()
    began = time.monotonic()
    with occupied_port() as port:
        flags = {"--listen": crashed.listen, flag: port}
        failed = run_lorsad(
            "--data-dir", crashed.data, *(word for pair in flags.items() for word in pair)
        )
    assert failed.returncode == 1
    assert port in failed.stderr.splitlines()[-1]
    assert time.monotonic() - began < 10
    assert crashed.worker_pids() == pids
    crashed.start()
    step = int(crashed.job("runs").get("progress", {}).get("step", 0))
    wait_for(
        "the worker to train on",
        lambda: int(crashed.job("runs").get("progress", {}).get("step", 0)) > step,
    )
    assert crashed.job("runs")["attempt"] == 1
    assert crashed.worker_pids() == pids
