"""Clients that open streams and take nothing from them."""

from __future__ import annotations

import contextlib
import pathlib
import resource
from collections.abc import Iterator

import grpc
import pytest
from finished_job import SPEC, finish_job
from lorsa.client import Client
from lorsa.client.errors import ResourceExhaustedError
from lorsa.v1.activation_service_pb2 import SEQUENCE_SUBSET_TRAINING, StreamSequencesRequest
from lorsa.v1.activation_service_pb2_grpc import ActivationServiceStub
from lorsa.v1.metric_service_pb2 import (
    METRIC_KIND_TRAINING,
    QueryMetricsRequest,
    StreamMetricsRequest,
)
from service import Service, wait_for
from unread_calls import CALLS_PER_CONNECTION, UnreadCalls

MEBIBYTE = 1 << 20
PER_CLIENT = 512  # streams_per_client by default
ANSWERS_PER_CLIENT = 256
SEQUENCE_STREAMS_PER_CLIENT = 32
ADDRESS_SPACE = 2560 * MEBIBYTE


def status_of(service: Service, key: str) -> int:
    """VmRSS (KiB), Threads, … of lorsad."""
    assert service.process is not None
    status = pathlib.Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.split(f"{key}:")[1].split()[0])


@contextlib.contextmanager
def limited_service(folder: pathlib.Path, limits: str) -> Iterator[Service]:
    config = folder / "lorsad.textproto"
    config.write_text(f"limits {{ {limits} }}\n")
    with Service(folder, "--config", str(config)) as service:
        service.add_set()
        yield service


@contextlib.contextmanager
def unread_sequences(address: str, streams: int) -> Iterator[list[grpc.StatusCode | None]]:
    """Opens streams of sequences with 16 readers each; None for each that is served, else the code.

    A stream that is served has sent its first message, which nobody takes.
    """
    request = StreamSequencesRequest(
        name="activationSets/set", subset=SEQUENCE_SUBSET_TRAINING, reader_threads=16
    )
    with grpc.insecure_channel(address) as channel:
        calls = [ActivationServiceStub(channel).StreamSequences(request) for _ in range(streams)]
        outcomes: list[grpc.StatusCode | None] = []
        for call in calls:
            list(call.initial_metadata())
            outcomes.append(call.code() if call.done() else None)
        yield outcomes
        for call in calls:
            call.cancel()


def test_many_readers_do_not_end_the_server(lorsad: Service) -> None:
    """46 streams with 16 readers each were 736 threads, and std::thread's exception its end."""
    lorsad.add_set()
    assert lorsad.process is not None
    resource.prlimit(lorsad.process.pid, resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    before = status_of(lorsad, "Threads")
    with unread_sequences(lorsad.address, 46):
        assert status_of(lorsad, "Threads") < before + 32
        with Client(lorsad.address) as client:
            client.server_info()
    assert lorsad.process.poll() is None


def unread_metrics(address: str, calls: int) -> list[UnreadCalls]:
    request = StreamMetricsRequest(job="jobs/done").SerializeToString()
    connections: list[UnreadCalls] = []
    for i in range(calls):
        if i % CALLS_PER_CONNECTION == 0:
            connections.append(UnreadCalls(address))
            connections[-1].pump(0.2)
        connections[-1].call("lorsa.v1.MetricService/StreamMetrics", request)
        connections[-1].pump(0)
    return connections


def answered(connections: list[UnreadCalls], code: grpc.StatusCode) -> int:
    for connection in connections:
        connection.pump(0.1)
    return sum(
        status == code.value[0] for connection in connections for status, _ in connection.endings
    )


@pytest.mark.parametrize("wait", [False, pytest.param(True, marks=pytest.mark.long)])
def test_unread_answers_are_bounded_and_ended(lorsad: Service, wait: bool) -> None:
    """Each of a unary call took what its answer takes, for as long as its client liked."""
    lorsad.add_set()
    finish_job(lorsad, SPEC)
    request = QueryMetricsRequest(job="jobs/done", kind=METRIC_KIND_TRAINING).SerializeToString()
    before = status_of(lorsad, "VmRSS")
    connection = UnreadCalls(lorsad.address)
    connection.pump(0.2)
    for _ in range(ANSWERS_PER_CLIENT + 100):
        connection.call("lorsa.v1.MetricService/QueryMetrics", request)
        connection.pump(0)
    refused = grpc.StatusCode.RESOURCE_EXHAUSTED
    wait_for("the refusals", lambda: answered([connection], refused) == 100)
    assert "answers that nobody has read" in connection.endings[-1][1]
    assert status_of(lorsad, "VmRSS") - before < 200 << 10
    if wait:  # a minute
        ended = grpc.StatusCode.UNAVAILABLE
        wait_for("the ends", lambda: answered([connection], ended) == ANSWERS_PER_CLIENT)
    connection.close()

    def answers() -> bool:
        """Once the server has noticed the end of the connection."""
        with Client(lorsad.address) as client, contextlib.suppress(ResourceExhaustedError):
            return bool(client.job("done").refresh().state == "SUCCEEDED")
        return False

    wait_for("an answer", answers)


@pytest.mark.parametrize("calls", [PER_CLIENT + 100, pytest.param(3600, marks=pytest.mark.long)])
def test_unread_metrics_are_bounded_and_ended(tmp_path: pathlib.Path, calls: int) -> None:
    """3,600 streams that nobody read took 2.3 GB, for ever."""
    with limited_service(tmp_path, "stream_stall_seconds: 15") as service:
        finish_job(service, SPEC)
        before = status_of(service, "VmRSS")
        connections = unread_metrics(service.address, calls)
        refused = grpc.StatusCode.RESOURCE_EXHAUSTED
        wait_for("the refusals", lambda: answered(connections, refused) == calls - PER_CLIENT)
        assert "streams are open" in connections[-1].endings[-1][1]
        assert status_of(service, "VmRSS") - before < 400 << 10
        ended = grpc.StatusCode.UNAVAILABLE
        wait_for("the ends", lambda: answered(connections, ended) == PER_CLIENT)
        assert any("was idle" in message for _, message in connections[0].endings)
        with Client(service.address) as client:
            assert client.job("done").refresh().state == "SUCCEEDED"
        for connection in connections:
            connection.close()


def test_stalled_streams_of_sequences_leave_jobs_their_own(tmp_path: pathlib.Path) -> None:
    """64 streams that nobody read kept every job waiting, and nothing said so."""
    limits = "sequence_streams: 8 sequence_streams_per_client: 8"
    with limited_service(tmp_path, limits) as service, Client(service.address) as client:
        with unread_sequences(service.address, 12) as outcomes:
            assert outcomes.count(None) == 8
            assert outcomes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 4
            wait_for(
                "the condition",
                lambda: "TOO_MANY_STREAMS" in [c.reason for c in client.server_info().conditions],
            )
            finish_job(service)
        wait_for("the condition to be over", lambda: not client.server_info().conditions)


def test_one_client_leaves_streams_of_sequences_to_others(lorsad: Service) -> None:
    lorsad.add_set()
    before = status_of(lorsad, "VmRSS")
    with unread_sequences(lorsad.address, 40) as outcomes:
        assert outcomes.count(None) == SEQUENCE_STREAMS_PER_CLIENT
        assert status_of(lorsad, "VmRSS") - before < 700 << 10
