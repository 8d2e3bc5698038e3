"""Whole lists from a server, message by message as it gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lorsa.client import Client
from lorsa.client.errors import RpcError
from lorsa.v1.checkpoint_service_pb2 import Checkpoint, ListCheckpointsRequest
from lorsa.v1.job_pb2 import Job
from lorsa.v1.job_service_pb2 import ListJobsRequest, ReadLogsRequest
from lorsa.v1.metric_service_pb2 import (
    METRIC_KIND_EVALUATION,
    METRIC_KIND_TRAINING,
    MetricPoint,
    QueryMetricsRequest,
)


def list_jobs(client: Client, state: int = 0) -> list[Job]:
    """Newest first; all states, or one."""
    request = ListJobsRequest(page_size=100, state=state)  # type: ignore[arg-type]
    jobs: list[Job] = []
    while True:
        page = client.call(client.stubs.job.ListJobs, request)
        jobs += page.jobs
        if not page.next_page_token:
            return jobs
        request.page_token = page.next_page_token


def query_metrics(client: Client, name: str) -> list[MetricPoint]:
    """Of both kinds, each in order of step."""
    points: list[MetricPoint] = []
    for kind in (METRIC_KIND_TRAINING, METRIC_KIND_EVALUATION):
        request = QueryMetricsRequest(job=name, kind=kind, page_size=10_000)
        while True:
            page = client.call(client.stubs.metric.QueryMetrics, request)
            points += page.points
            if not page.HasField("next_step"):
                break
            request.start_step = page.next_step
    return points


def list_checkpoints(client: Client, name: str) -> list[Checkpoint]:
    """Oldest step first."""
    request = ListCheckpointsRequest(parent=name)
    return list(client.call(client.stubs.checkpoint.ListCheckpoints, request).checkpoints)


def for_a_while(client: Client, method: Any, request: Any, seconds: float) -> Iterator[Any]:
    """What a stream gives until then; it is cancelled after that."""
    try:
        yield from client.stream(method, request, seconds)
    except RpcError as error:
        if error.code != "DEADLINE_EXCEEDED":
            raise


def read_logs(client: Client, name: str) -> dict[int, str]:
    """What each attempt has printed so far."""
    logs: dict[int, str] = {}
    for part in client.stream(client.stubs.job.ReadLogs, ReadLogsRequest(name=name), timeout=60):
        logs[part.attempt] = logs.get(part.attempt, "") + part.text
    return logs
