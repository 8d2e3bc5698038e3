"""Another program holds the lock of the catalog: a backup by hand, an open sqlite3 shell."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from finished_job import SPEC
from lorsa.client import Client
from lorsa.client.errors import LorsaError
from lorsa.v1.job_pb2 import JOB_STATE_RUNNING
from lorsa.v1.job_service_pb2 import GetJobRequest
from scripted_worker import ScriptedWorker, idle_worker
from service import Service, wait_for

WRITERS = 24  # more than the server has threads for writes
QUICK_ANSWER = 2.0  # seconds; a write waits up to 10 for the lock
SILENCE_TIMEOUT = 60.0  # seconds until a worker counts as lost


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    with Service(tmp_path, "--worker-binary", str(idle_worker(tmp_path))) as service:
        service.add_set()
        yield service


@contextlib.contextmanager
def held_lock(service: Service) -> Iterator[None]:
    catalog = sqlite3.connect(service.data / "catalog.sqlite", isolation_level=None)
    try:
        catalog.execute("BEGIN IMMEDIATE")
        yield
        catalog.execute("ROLLBACK")
    finally:
        catalog.close()


def write(address: str, number: int) -> None:
    """Submits a job; whether that succeeds depends on when the lock is let go."""
    with Client(address) as client, contextlib.suppress(LorsaError):
        client.submit(SPEC, f"late-{number}")


def follow(client: Client, worker: ScriptedWorker, step: int) -> None:
    """A heartbeat is heard and a call answered; neither waits for the writes."""
    worker.say_heartbeat(step)
    request = GetJobRequest(name="jobs/running")

    def heard() -> bool:
        return client.stubs.job.GetJob(request, timeout=QUICK_ANSWER).progress.step == step

    wait_for("the heartbeat", heard, QUICK_ANSWER)


def attack(service: Service, seconds: float) -> None:
    """Holds the lock that long, with more writers than the server has threads."""
    with Client(service.listen) as client, ThreadPoolExecutor(WRITERS) as pool:
        job = client.submit(SPEC, "running")
        wait_for("the attempt", lambda: job.refresh().state == "STARTING")
        with ScriptedWorker(service, "running") as worker:
            worker.say_hello()
            with held_lock(service):
                deadline = time.monotonic() + seconds
                step = 0
                while time.monotonic() < deadline:
                    if step % 10 == 0:
                        for number in range(WRITERS):
                            pool.submit(write, service.listen, step * WRITERS + number)
                    step += 1
                    follow(client, worker, step)
                    time.sleep(1)
            after = client.stubs.job.GetJob(GetJobRequest(name="jobs/running"))
            assert (after.state, after.attempt) == (JOB_STATE_RUNNING, 1)
        client.submit(SPEC, "after")


def test_a_held_catalog_stops_writes_alone(service: Service) -> None:
    attack(service, 5)


@pytest.mark.long
def test_no_worker_is_killed_while_the_catalog_is_held(service: Service) -> None:
    attack(service, SILENCE_TIMEOUT + 30)
