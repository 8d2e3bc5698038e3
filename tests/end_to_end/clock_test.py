"""The wall clock is set back under a running server."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time

import pytest
from finished_job import SPEC
from lorsa.client import Client
from service import ROOT, Service, wait_for

HOUR = 3600  # seconds


@pytest.fixture
def clock(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The file whose size is how far the clock of new processes is ahead, in seconds; an hour."""
    library, file = tmp_path / "shifted_clock.so", tmp_path / "clock"
    source = ROOT / "tests/shifted_clock.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    file.write_bytes(b"")
    os.truncate(file, HOUR)
    monkeypatch.setenv("LORSA_CLOCK", str(file))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    return file


def test_a_clock_set_back_stops_nothing(tmp_path: pathlib.Path, clock: pathlib.Path) -> None:
    """The scheduler stood still for as long as the clock was set back, unless somebody called."""
    with Service(tmp_path) as service:
        service.add_set()
        with Client(service.address) as client:
            job = client.submit(SPEC | {"tokens": 100_000_000}, "runs")
            wait_for("a checkpoint", lambda: list(job.checkpoints()))
        (worker,) = service.worker_pids()
        os.truncate(clock, 0)
        os.kill(worker, signal.SIGKILL)
        # Nobody calls the server meanwhile.
        wait_for("the next attempt", lambda: set(service.worker_pids()) - {worker}, patience=30)
        began = time.monotonic()
        assert service.terminate() == 0
        assert time.monotonic() - began < 30
        assert not service.worker_pids()
