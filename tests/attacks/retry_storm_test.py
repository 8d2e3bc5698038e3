"""Clients that repeat a call without pause do not slow those who follow a job."""

from __future__ import annotations

import contextlib
import pathlib
import threading
import time
from collections.abc import Iterator

import grpc
import pytest
from finished_job import SPEC
from lorsa.client import Client
from lorsa.v1.job_service_pb2 import GetJobRequest, WatchJobRequest
from lorsa.v1.job_service_pb2_grpc import JobServiceStub
from scripted_worker import ScriptedWorker, idle_worker
from service import PATIENCE, Service, wait_for

CLIENTS = 64
HEARTBEATS = 20
SLOWEST_MEDIAN = 1.0  # seconds, on a machine that the storm keeps busy


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    with Service(tmp_path, "--worker-binary", str(idle_worker(tmp_path))) as service:
        service.add_set()
        yield service


class Storm:
    """Clients that each keep a call under way and repeat it at once, whatever its answer."""

    def __init__(self, address: str) -> None:
        self._stopping = threading.Event()
        self._channels = [
            grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
            for _ in range(CLIENTS)
        ]
        self.answers = 0

    def __enter__(self) -> Storm:
        for channel in self._channels:
            self._call(JobServiceStub(channel))
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for channel in self._channels:
            channel.close()

    def _call(self, stub: JobServiceStub) -> None:
        call = stub.GetJob.future(GetJobRequest(name="jobs/running"))
        call.add_done_callback(lambda _: self._answered(stub))

    def _answered(self, stub: JobServiceStub) -> None:
        self.answers += 1
        if not self._stopping.is_set():
            with contextlib.suppress(ValueError):  # the channel was closed meanwhile
                self._call(stub)


def watch_delays(address: str, worker: ScriptedWorker) -> list[float]:
    """Seconds from a heartbeat to its arrival at a watcher, sorted."""
    delays = []
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        watch = JobServiceStub(channel).WatchJob(
            WatchJobRequest(name="jobs/running"), timeout=PATIENCE
        )
        next(watch)  # the job itself; what changes from now on follows
        for step in range(1, HEARTBEATS + 1):
            sent = time.monotonic()
            worker.say_heartbeat(step)
            for update in watch:
                if update.progress.step >= step:
                    break
            delays.append(time.monotonic() - sent)
        watch.cancel()
    return sorted(delays)


def test_a_retry_storm_does_not_slow_a_watcher(service: Service) -> None:
    with Client(service.listen) as client:
        job = client.submit(SPEC, "running")
        wait_for("the attempt", lambda: job.refresh().state == "STARTING")
        with ScriptedWorker(service, "running") as worker:
            worker.say_hello()
            with Storm(service.listen) as storm:
                delays = watch_delays(service.listen, worker)
                answers = storm.answers
            assert answers > CLIENTS
            assert delays[len(delays) // 2] < SLOWEST_MEDIAN, delays
            assert client.job("running").state == "RUNNING"
