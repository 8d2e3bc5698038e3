"""Following a stream across reconnections, without input or output: the clients of threads and of
asyncio drive the same cursors.

A cursor says what to ask for next, takes each answer once, and knows when the stream is over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lorsa.client.errors import DataLossError, RpcError, closed_early
from lorsa.v1 import job_pb2, job_service_pb2, metric_service_pb2

Item = TypeVar("Item")
JobUpdate = job_pb2.Job | job_pb2.JobEvent | job_pb2.JobProgress
FINAL_STATES = (
    job_pb2.JOB_STATE_SUCCEEDED,
    job_pb2.JOB_STATE_FAILED,
    job_pb2.JOB_STATE_CANCELLED,
)


class Cursor(ABC, Generic[Item]):
    """One stream. `ended` says whether its last message has been handled."""

    ended = False

    @abstractmethod
    def request(self) -> Any:
        """The request that goes on from what was handled."""

    @abstractmethod
    def handle(self, response: Any) -> Iterator[Item]:
        """What a response brings that was not there before; RpcError if it cannot be right."""

    def closed(self) -> RpcError | None:
        """The server ended the stream in order: what is wrong with that, unless it is the end."""
        return None if self.ended else closed_early(self.what)

    @property
    @abstractmethod
    def what(self) -> str:
        """What is streamed, for errors."""


class JobCursor(Cursor[JobUpdate]):
    """WatchJob: the job once, each event after `after_revision` once, progress as it comes."""

    def __init__(self, name: str, after_revision: int) -> None:
        self._name = name
        self._revision = after_revision
        self._newest = after_revision  # revision that the server is known to have
        self._is_first = True

    @property
    def what(self) -> str:
        return f"the watch of {self._name}"

    def request(self) -> job_service_pb2.WatchJobRequest:
        return job_service_pb2.WatchJobRequest(name=self._name, after_revision=self._revision)

    def handle(self, response: job_service_pb2.WatchJobResponse) -> Iterator[JobUpdate]:
        kind = response.WhichOneof("item")
        if kind == "job":
            # Its state is that of the newest event, which may still be on its way.
            self._newest = max(self._newest, response.job.revision)
            if response.job.revision <= self._revision:
                self.ended = response.job.state in FINAL_STATES
            if self._is_first:
                self._is_first = False
                yield response.job
        elif kind == "event":
            yield from self._event(response.event)
        elif kind == "progress":
            yield response.progress

    def _event(self, event: job_pb2.JobEvent) -> Iterator[JobUpdate]:
        if event.revision <= self._revision:
            return  # seen before the reconnection
        if event.revision > self._revision + 1:
            raise DataLossError(
                f"The server left out events {self._revision + 1} to {event.revision - 1} of "
                f"{self._name}: start the watch again.",
                "DATA_LOSS",
            )
        self._revision = event.revision
        # A job that failed and was retried has a final state in its history.
        self.ended = event.to_state in FINAL_STATES and event.revision >= self._newest
        yield event


class MetricCursor(Cursor[metric_service_pb2.MetricPoint]):
    """StreamMetrics: each point after `after_sequence` once, in the order of their commits."""

    def __init__(self, job: str, kind: int, after_sequence: int) -> None:
        self._job = job
        self._kind = kind
        self._sequence = after_sequence

    @property
    def what(self) -> str:
        return f"the metrics of {self._job}"

    def request(self) -> metric_service_pb2.StreamMetricsRequest:
        return metric_service_pb2.StreamMetricsRequest(
            job=self._job,
            after_sequence=self._sequence,
            kind=self._kind,  # type: ignore[arg-type]  # an enum's number
        )

    def handle(
        self, response: metric_service_pb2.StreamMetricsResponse
    ) -> Iterator[metric_service_pb2.MetricPoint]:
        for point in response.points:
            if point.sequence > self._sequence:
                self._sequence = point.sequence
                yield point
        self.ended = response.final_state != job_pb2.JOB_STATE_UNSPECIFIED


class LogCursor(Cursor[str]):
    """ReadLogs: whole lines of all attempts in order, each once."""

    def __init__(self, name: str, follow: bool) -> None:
        self._name = name
        self._follow = follow
        self._start: job_service_pb2.LogPosition | None = None

    @property
    def what(self) -> str:
        return f"the logs of {self._name}"

    def request(self) -> job_service_pb2.ReadLogsRequest:
        return job_service_pb2.ReadLogsRequest(
            name=self._name, follow=self._follow, start=self._start
        )

    def handle(self, response: job_service_pb2.ReadLogsResponse) -> Iterator[str]:
        if response.HasField("end"):  # an older server sends none
            self._start = response.end
        yield response.text

    def closed(self) -> RpcError | None:
        self.ended = True
        return None


@dataclass(frozen=True)
class Patience:
    """How a broken stream connects again: pauses in seconds, doubled after each failure."""

    first_pause: float = 0.2
    longest_pause: float = 2.0
    outage: float = 600.0  # gives up when the pauses since the last message add up to this


class Reconnection:
    """When to try again after a stream broke."""

    def __init__(self, patience: Patience, server_answered: bool) -> None:
        """A server that never answered this client is reported at once."""
        self._patience = patience
        self._answered = server_answered
        self.received()

    def received(self) -> None:
        """A message came."""
        self._pause = self._patience.first_pause
        self._paused = 0.0

    def pause_after(self, error: RpcError) -> float:
        """Seconds to wait before the next try; raises `error` if there should be none."""
        if not error.is_transient or not self._answered or self._paused >= self._patience.outage:
            raise error
        pause = self._pause
        self._pause = min(2 * pause, self._patience.longest_pause)
        self._paused += pause
        return pause
