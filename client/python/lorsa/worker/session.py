"""The worker's end of WorkerService.Session (proto/lorsa/v1/worker_service.proto).

Keeps one session open through restarts of the server. Metrics and a staged checkpoint are kept
until the server acknowledges them, and sent again after a reconnect.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from lorsa.client.connection import Address, open_channel
from lorsa.errors import LorsaError
from lorsa.v1.job_pb2 import JobProgress
from lorsa.v1.metric_service_pb2 import MetricPoint
from lorsa.v1.worker_service_pb2 import (
    COMMAND_UNSPECIFIED,
    CheckpointPublished,
    CheckpointStaged,
    Heartbeat,
    MetricBatch,
    ServerMessage,
    Welcome,
    WorkerBootstrap,
    WorkerHello,
    WorkerMessage,
    WorkerOutcome,
    WorkerWarning,
)
from lorsa.v1.worker_service_pb2_grpc import WorkerServiceStub

PROTOCOL = 2  # as base/worker_protocol.h
HEARTBEAT_SECONDS = 1.0
GIVE_UP_SECONDS = 3600.0
_BACKOFF_SECONDS = (0.1, 5.0)
_MAX_BATCH_POINTS = 256
_MAX_WAITING_POINTS = 65536
_MAX_WARNINGS = 64
_MAX_ENDPOINT_BYTES = 1024
_TRANSIENT = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class RefusedError(LorsaError):
    """The server refuses this attempt: the worker must exit."""


class ServerAwayError(LorsaError):
    """The server stayed away for too long."""


class _Connection:
    """What belongs to one connection alone. Guarded by the session's lock."""

    def __init__(self) -> None:
        self.is_welcome = False
        self.is_closed = False
        self.batches_sent = 0
        self.request_sent = 0  # of those for publication
        self.outcome_sent = False
        self.heartbeat_time = 0.0


class Session:
    """All methods may be called from any thread. `start` comes first, once."""

    def __init__(self, bootstrap: WorkerBootstrap, program: str, kinds: list[str]) -> None:
        self._bootstrap = bootstrap
        self._hello = WorkerHello(protocol=PROTOCOL, program=program, kinds=kinds, **_identity())
        self._changed = threading.Condition()
        # What follows is guarded by _changed.
        self._error: LorsaError | None = None
        self._welcome: Welcome | None = None
        self._command = COMMAND_UNSPECIFIED
        self._progress = JobProgress()
        self._points: list[MetricPoint] = []
        self._batches: deque[MetricBatch] = deque()  # not acknowledged, oldest first
        self._next_batch = 1
        self._warnings: deque[WorkerWarning] = deque(maxlen=_MAX_WARNINGS)
        self._staged: CheckpointStaged | None = None  # the newest asked for
        self._requests = 0  # for publication, so far
        self._published: CheckpointPublished | None = None
        self._outcome: WorkerOutcome | None = None
        self._is_over = False
        self._contact_time = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="lorsa-session", daemon=True)

    def start(self) -> Welcome:
        """Connects and waits for the first welcome."""
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._welcome is not None or self._error is not None)
            self._check()
            assert self._welcome is not None
            return self._welcome

    @property
    def command(self) -> int:
        """The newest lorsa.v1.Command; COMMAND_UNSPECIFIED if there was none."""
        with self._changed:
            self._check()
            return self._command

    def set_progress(self, progress: JobProgress) -> None:
        """Sent with the next heartbeat."""
        with self._changed:
            self._check()
            self._progress = progress

    def add_metrics(self, point: MetricPoint) -> None:
        """Queues a point; blocks only while very many wait for a server that is away."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._points) < _MAX_WAITING_POINTS or self._error is not None
            )
            self._check()
            self._points.append(point)
            self._changed.notify_all()

    def add_warning(self, message: str, damaged_step: int | None = None) -> None:
        """Queues something for the history of the job. `damaged_step`: of a published checkpoint
        that the server is to verify, and to take off its list if it is damaged.
        """
        with self._changed:
            self._check()
            self._warnings.append(WorkerWarning(message=message, damaged_step=damaged_step))
            self._changed.notify_all()

    def publish(self, staged: CheckpointStaged) -> CheckpointPublished:
        """Asks the server to publish a staged checkpoint, and waits for its answer."""
        with self._changed:
            self._staged, self._published = staged, None
            self._requests += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._published is not None or self._error is not None)
            self._check()
            assert self._published is not None
            return self._published

    def finish(self, outcome: WorkerOutcome, timeout: float) -> bool:
        """Delivers what is left, then the outcome; whether the server has recorded it in time."""
        with self._changed:
            self._outcome = outcome
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: self._is_over or self._error is not None, timeout)
            return done and self._error is None

    # --- The thread of the session. ---

    def _run(self) -> None:
        pause = _BACKOFF_SECONDS[0]
        while True:
            connection = _Connection()
            try:
                self._talk(connection)
            except grpc.RpcError as error:
                if error.code() not in _TRANSIENT:
                    return self._end(RefusedError(f"The server refuses this worker: "
                                                  f"{error.details()}"))  # fmt: skip
            except LorsaError:
                pass  # The endpoint file is not there: no server runs.
            with self._changed:
                connection.is_closed = True
                self._changed.notify_all()
                if self._is_over:
                    return None
                away = time.monotonic() - self._contact_time
            if away > GIVE_UP_SECONDS:
                return self._end(ServerAwayError(f"The server was away for {away:.0f} s."))
            pause = _BACKOFF_SECONDS[0] if connection.is_welcome else pause
            time.sleep(pause)
            pause = min(2 * pause, _BACKOFF_SECONDS[1])

    def _talk(self, connection: _Connection) -> None:
        """One connection, from hello to its end."""
        address = Address.of(self._server(), self._bootstrap.token, False)
        channel: Any = open_channel(address, grpc)
        with channel:
            answers = WorkerServiceStub(channel).Session(
                self._messages(connection), metadata=address.call_metadata()
            )
            for answer in answers:
                self._handle(connection, answer)

    def _server(self) -> str:
        if self._bootstrap.endpoint:
            return str(self._bootstrap.endpoint)
        path = Path(self._bootstrap.endpoint_file)
        try:
            return path.read_bytes()[:_MAX_ENDPOINT_BYTES].decode().strip()
        except OSError as error:
            raise LorsaError(f"No server runs: {error}") from error

    def _handle(self, connection: _Connection, answer: ServerMessage) -> None:
        with self._changed:
            self._contact_time = time.monotonic()
            item = answer.WhichOneof("item")
            if item == "welcome":
                connection.is_welcome = True
                self._welcome = self._welcome or answer.welcome
            elif item == "metrics_acknowledged":
                while self._batches and self._batches[0].number <= answer.metrics_acknowledged:
                    self._batches.popleft()
                    connection.batches_sent -= 1
            elif item == "checkpoint_published":
                self._published = answer.checkpoint_published
            elif item == "command":
                self._command = answer.command
            elif item == "outcome_recorded":
                self._is_over = True
            self._changed.notify_all()

    # --- gRPC's thread, which asks for what to send. ---

    def _messages(self, connection: _Connection) -> Iterator[WorkerMessage]:
        yield WorkerMessage(hello=self._hello)
        with self._changed:
            self._changed.wait_for(lambda: connection.is_welcome or connection.is_closed)
        while True:
            with self._changed:
                message = self._next_message(connection)
                while message is None and not connection.is_closed:
                    left = connection.heartbeat_time - time.monotonic()
                    self._changed.wait(max(0.0, left))
                    message = self._next_message(connection)
                if connection.is_closed or message is None:
                    return
            yield message

    def _next_message(self, connection: _Connection) -> WorkerMessage | None:
        if time.monotonic() >= connection.heartbeat_time:
            connection.heartbeat_time = time.monotonic() + HEARTBEAT_SECONDS
            return WorkerMessage(heartbeat=Heartbeat(progress=self._progress))
        if self._points and connection.batches_sent == len(self._batches):
            batch = MetricBatch(number=self._next_batch, points=self._points[:_MAX_BATCH_POINTS])
            self._next_batch += 1
            del self._points[:_MAX_BATCH_POINTS]
            self._batches.append(batch)
        if connection.batches_sent < len(self._batches):
            connection.batches_sent += 1
            return WorkerMessage(metrics=self._batches[connection.batches_sent - 1])
        if self._warnings:
            return WorkerMessage(warning=self._warnings.popleft())
        if self._published is None and connection.request_sent < self._requests:
            connection.request_sent = self._requests
            return WorkerMessage(checkpoint=self._staged)
        if self._outcome is not None and not self._batches and not connection.outcome_sent:
            connection.outcome_sent = True
            return WorkerMessage(outcome=self._outcome)
        return None

    def _end(self, error: LorsaError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error


def _identity() -> dict[str, Any]:
    """Of this process, as WorkerHello has it."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return {
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "pid": os.getpid(),
        "start_ticks": int(after_name[19]),  # field 22 of the line
    }
