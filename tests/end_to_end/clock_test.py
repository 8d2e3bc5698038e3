"""The wall clock is set back under a running server."""

from __future__ import annotations

import os
import pathlib
import signal
import time

from clock import ShiftedClock
from finished_job import SPEC
from lorsa.client import Client
from service import Service, wait_for

HOUR = 3600  # seconds


def test_a_clock_set_back_stops_nothing(tmp_path: pathlib.Path) -> None:
    """The scheduler stood still for as long as the clock was set back, unless somebody called."""
    clock = ShiftedClock(tmp_path)
    clock.set_ahead(HOUR)
    with Service(tmp_path, environment=clock.environment) as service:
        service.add_set()
        with Client(service.address) as client:
            job = client.submit(SPEC | {"tokens": 100_000_000}, "runs")
            wait_for("a checkpoint", lambda: list(job.checkpoints()))
        (worker,) = service.worker_pids()
        clock.set_ahead(0)
        os.kill(worker, signal.SIGKILL)
        # Nobody calls the server meanwhile.
        wait_for("the next attempt", lambda: set(service.worker_pids()) - {worker}, patience=30)
        began = time.monotonic()
        assert service.terminate() == 0
        assert time.monotonic() - began < 30
        assert not service.worker_pids()
