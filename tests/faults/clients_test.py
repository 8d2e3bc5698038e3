"""Clients that read slowly, do not read at all, or vanish: nobody else notices."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from finished_job import SPEC
from history import history_problems, read_history
from lorsa.client import Client
from lorsa.v1.activation_service_pb2 import SEQUENCE_SUBSET_TRAINING, StreamSequencesRequest
from lorsa.v1.job_service_pb2 import ReadLogsRequest, WatchJobRequest
from lorsa.v1.metric_service_pb2 import StreamMetricsRequest
from proxy import Proxy
from service import PATIENCE, Service, wait_for

ENDLESS = SPEC | {"tokens": 100_000_000}
SILENT_CLIENTS = 20
MEBIBYTE = 1 << 20
# Seconds, on a machine with much else to do. An answer that waits for a client that does not read
# waits for ever.
LONGEST_ANSWER = 20.0


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    with Service(tmp_path) as service:
        service.add_set()
        yield service


def running(client: Client, job_id: str) -> Any:
    job = client.submit(ENDLESS, job_id)
    wait_for("the job to run", lambda: job.refresh().state == "RUNNING")
    return job


def open_streams(client: Client, name: str) -> list[Any]:
    """Every kind of stream, begun and not read."""
    sequences = StreamSequencesRequest(name="activationSets/set", subset=SEQUENCE_SUBSET_TRAINING)
    return [
        client.stubs.job.WatchJob(WatchJobRequest(name=name)),
        client.stubs.metric.StreamMetrics(StreamMetricsRequest(job=name)),
        client.stubs.job.ReadLogs(ReadLogsRequest(name=name, follow=True)),
        client.stubs.activation.StreamSequences(sequences),
    ]


def resident_bytes(service: Service) -> int:
    assert service.process is not None
    status = pathlib.Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def sockets(service: Service) -> int:
    assert service.process is not None
    opened = 0
    for descriptor in pathlib.Path(f"/proc/{service.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            opened += str(descriptor.readlink()).startswith("socket:")
    return opened


def newest_sequence(client: Client, name: str) -> int:
    points = client.stream(
        client.stubs.metric.StreamMetrics, StreamMetricsRequest(job=name, history_only=True)
    )
    return max((point.sequence for answer in points for point in answer.points), default=0)


def settled_bytes(service: Service) -> int:
    """What is resident once the server has filled what it may fill."""
    sizes = [resident_bytes(service)]

    def stands_still() -> bool:
        time.sleep(2)
        sizes.append(resident_bytes(service))
        return sizes[-1] - sizes[-2] < MEBIBYTE

    wait_for("memory to stand still", stands_still)
    return sizes[-1]


@pytest.mark.long
def test_clients_that_do_not_read_hold_up_nobody(service: Service) -> None:
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Client(service.listen))
        job = running(client, "job")
        silent = [stack.enter_context(Client(service.listen)) for _ in range(SILENT_CLIENTS)]
        streams = [stream for each in silent for stream in open_streams(each, job.name)]
        memory = settled_bytes(service)
        step, sequence = job.refresh().proto.progress.step, newest_sequence(client, job.name)

        slowest = 0.0
        for _ in range(50):
            start = time.monotonic()
            job.refresh()
            slowest = max(slowest, time.monotonic() - start)
        assert slowest < LONGEST_ANSWER, "an answer waited for somebody else's"
        progress = client.stream(client.stubs.job.WatchJob, WatchJobRequest(name=job.name))
        wait_for("another watcher's news", lambda: next(progress).HasField("progress"))
        wait_for("training to go on", lambda: job.refresh().proto.progress.step > step + 100)
        wait_for("metrics", lambda: newest_sequence(client, job.name) > sequence + 100)
        assert resident_bytes(service) - memory < 32 * MEBIBYTE, "their messages pile up"

        job.cancel()
        assert job.wait(PATIENCE).state == "CANCELLED"
        assert not history_problems(*read_history(client, job.name))
        for stream in streams:
            stream.cancel()


@pytest.mark.long
def test_clients_that_vanish_leave_nothing_open(service: Service) -> None:
    """Some reset their connections, some say nothing more, as behind a network that is gone: the
    server ends in time all the same.
    """
    with Client(service.listen) as client:
        job = running(client, "job")
        before = sockets(service)
        with Proxy(service.listen) as proxy:
            gone = [Client(proxy.address) for _ in range(SILENT_CLIENTS)]
            streams = [stream for each in gone for stream in open_streams(each, job.name)]
            for stream in streams:
                next(stream)
            assert sockets(service) >= before + SILENT_CLIENTS
            proxy.cut()
            wait_for("the connections to be closed", lambda: sockets(service) <= before)
            for each in gone:
                each.close()
        assert job.refresh().state == "RUNNING"

        with Proxy(service.listen) as proxy, Client(proxy.address) as lost:
            for stream in open_streams(lost, job.name):
                next(stream)
            proxy.be_a_black_hole()
            step = job.refresh().proto.progress.step
            wait_for("training to go on", lambda: job.refresh().proto.progress.step > step + 50)
            start = time.monotonic()
            assert service.terminate() == 0
            assert time.monotonic() - start < 60


def test_a_watch_that_is_cancelled_leaves_the_job_running(service: Service) -> None:
    with Client(service.listen) as client:
        job = running(client, "job")
        attempt = job.proto.attempt
        for _ in range(20):
            for stream in open_streams(client, job.name):
                next(stream)
                stream.cancel()
        step = job.refresh().proto.progress.step
        wait_for("training to go on", lambda: job.refresh().proto.progress.step > step + 50)
        assert (job.state, job.proto.attempt) == ("RUNNING", attempt)
        assert [event.reason for event in read_history(client, job.name)[1]].count("") <= 2
