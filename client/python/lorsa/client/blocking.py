"""The client for threads. lorsa/client/asynchronous.py is its twin for asyncio."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import grpc

from lorsa.client.connection import Address, Stubs, Tls, open_channel
from lorsa.client.cursors import (
    Cursor,
    JobCursor,
    JobUpdate,
    LogCursor,
    MetricCursor,
    Patience,
    Reconnection,
)
from lorsa.client.download import Download
from lorsa.client.errors import RpcError, from_grpc
from lorsa.client.metric_table import MetricTable, metric_kind
from lorsa.client.records import CheckpointRecord, JobRecord, ResolvedJob
from lorsa.client.spec import Spec, create_job_request
from lorsa.v1 import (
    activation_service_pb2,
    checkpoint_service_pb2,
    job_pb2,
    job_service_pb2,
    metric_service_pb2,
    server_info_service_pb2,
)

Item = TypeVar("Item")
OnProgress = Callable[[int, int], None]  # bytes done, bytes in all
_PAGE = 1000


class Client:
    """A connection to lorsad. Connects when first used; may be shared by threads.

        with lorsa.Client("127.0.0.1:7070") as client:
            job = client.submit({"activation_set": "smollm2-l12"})
            for update in job.watch():
                print(update)
            job.checkpoint("best").download("lorsa-l12")

    Every method may raise an RpcError (lorsa/client/errors.py).
    """

    def __init__(
        self,
        server: str = "127.0.0.1:7070",
        *,
        token: str | None = None,
        tls: Tls = False,
        timeout: float = 30.0,
        patience: Patience | None = None,
    ) -> None:
        """`timeout`: seconds for a call with one answer. `patience`: how streams reconnect."""
        self.address = Address.of(server, token, tls)
        self._timeout = timeout
        self._patience = patience or Patience()
        self._answered = False
        self._channel: grpc.Channel = open_channel(self.address, grpc)
        self.stubs = Stubs(self._channel)
        self.sets = ActivationSets(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all calls."""
        self._channel.close()

    def server_info(self) -> server_info_service_pb2.ServerInfo:
        """Version, limits and load of the server."""
        request = server_info_service_pb2.GetServerInfoRequest()
        info: server_info_service_pb2.ServerInfo
        info = self.call(self.stubs.server_info.GetServerInfo, request)
        return info

    def submit(self, spec: Spec, job_id: str | None = None) -> Job:
        """Queues a job. `spec`: a dict, a TrainingSpec, or the path of a textproto or JSON file."""
        return Job(
            self, self.call(self.stubs.job.CreateJob, create_job_request(spec, job_id, False))
        )

    def resolve(self, spec: Spec) -> ResolvedJob:
        """What a job would run as and what it would take; nothing is queued."""
        request = create_job_request(spec, None, validate_only=True)
        return ResolvedJob.of(self.call(self.stubs.job.CreateJob, request))

    def job(self, job_id: str) -> Job:
        """A job by its id."""
        request = job_service_pb2.GetJobRequest(name=f"jobs/{job_id}")
        return Job(self, self.call(self.stubs.job.GetJob, request))

    def jobs(self) -> Iterator[Job]:
        """All jobs, newest first."""
        request = job_service_pb2.ListJobsRequest(page_size=_PAGE)
        while True:
            page: job_service_pb2.ListJobsResponse = self.call(self.stubs.job.ListJobs, request)
            yield from (Job(self, each) for each in page.jobs)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def call(self, method: Any, request: Any) -> Any:
        """One call with one answer."""
        try:
            response = method(request, timeout=self._timeout, metadata=self.address.metadata)
        except grpc.RpcError as error:
            raise self._typed(error) from error
        self._answered = True
        return response

    def stream(self, method: Any, request: Any, timeout: float | None = None) -> Iterator[Any]:
        """One call with a stream of answers, on one connection."""
        call = method(request, timeout=timeout, metadata=self.address.metadata)
        try:
            for response in call:
                self._answered = True
                yield response
        except grpc.RpcError as error:
            raise self._typed(error) from error
        finally:
            call.cancel()

    def follow(
        self, method: Any, cursor: Cursor[Item], deadline: float | None = None
    ) -> Iterator[Item]:
        """What a cursor gives until it has ended, over as many connections as it takes.

        `deadline`: of time.monotonic(); TimeoutError when it is over.
        """
        reconnection = Reconnection(self._patience, self._answered)
        while not cursor.ended:
            try:
                left = None if deadline is None else max(0.001, deadline - time.monotonic())
                for response in self.stream(method, cursor.request(), left):
                    reconnection.received()
                    yield from cursor.handle(response)
                broken = cursor.closed()
            except RpcError as error:
                if error.code == "DEADLINE_EXCEEDED":
                    raise TimeoutError(f"{cursor.what} took too long") from error
                broken = error
            if broken is not None and not cursor.ended:
                time.sleep(reconnection.pause_after(broken))

    def _typed(self, error: grpc.RpcError) -> RpcError:
        typed = from_grpc(error, self.address.server)
        self._answered = self._answered or not typed.is_transient
        return typed


class ActivationSets:
    """The activation sets of a server: client.sets."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def register(
        self, set_id: str, path: str | PathLike[str], on_progress: OnProgress | None = None
    ) -> activation_service_pb2.ActivationSet:
        """Registers a folder on the server, below one of its activation roots; reads all of it."""
        request = activation_service_pb2.RegisterActivationSetRequest(
            activation_set_id=set_id, path=str(path)
        )
        method = self._client.stubs.activation.RegisterActivationSet
        for response in self._client.stream(method, request):
            if response.WhichOneof("item") == "activation_set":
                registered: activation_service_pb2.ActivationSet = response.activation_set
                return registered
            if on_progress is not None:
                on_progress(response.progress.bytes_done, response.progress.bytes_total)
        raise RpcError("The server did not answer with the set: register it again.", "INTERNAL")

    def get(self, set_id: str) -> activation_service_pb2.ActivationSet:
        """What the server knows of a set."""
        request = activation_service_pb2.GetActivationSetRequest(name=f"activationSets/{set_id}")
        method = self._client.stubs.activation.GetActivationSet
        found: activation_service_pb2.ActivationSet = self._client.call(method, request)
        return found

    def list(self) -> Iterator[activation_service_pb2.ActivationSet]:
        """All sets, in order of id."""
        request = activation_service_pb2.ListActivationSetsRequest(page_size=_PAGE)
        while True:
            method = self._client.stubs.activation.ListActivationSets
            page: activation_service_pb2.ListActivationSetsResponse
            page = self._client.call(method, request)
            yield from page.activation_sets
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


class Job(JobRecord):
    """A training job as it was when it was last asked for; `refresh` asks again."""

    def __init__(self, client: Client, proto: job_pb2.Job) -> None:
        self._client = client
        self.proto = proto

    def refresh(self) -> Job:
        """Asks the server again; returns this job."""
        request = job_service_pb2.GetJobRequest(name=self.name)
        return self._update(self._client.stubs.job.GetJob, request)

    def pause(self) -> Job:
        """Asks the worker to checkpoint and stop; returns at once."""
        request = job_service_pb2.PauseJobRequest(name=self.name)
        return self._update(self._client.stubs.job.PauseJob, request)

    def resume(self) -> Job:
        """Queues a paused job again."""
        request = job_service_pb2.ResumeJobRequest(name=self.name)
        return self._update(self._client.stubs.job.ResumeJob, request)

    def cancel(self) -> Job:
        """Ends the job; its checkpoints stay."""
        request = job_service_pb2.CancelJobRequest(name=self.name)
        return self._update(self._client.stubs.job.CancelJob, request)

    def watch(self, after_revision: int = 0) -> Iterator[JobUpdate]:
        """The job, then its events, each once, and its progress, until it has ended.

        Goes on by itself when the server restarts. Leaving the loop does nothing to the job.
        """
        cursor = JobCursor(self.name, after_revision)
        yield from self._client.follow(self._client.stubs.job.WatchJob, cursor)

    def wait(self, timeout: float | None = None) -> Job:
        """Returns this job when it has ended, however; TimeoutError after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        cursor = JobCursor(self.name, 0)
        for _ in self._client.follow(self._client.stubs.job.WatchJob, cursor, deadline):
            pass
        return self.refresh()

    def metrics(self, kind: str = "evaluation") -> MetricTable:
        """All metrics so far; `kind`: "evaluation" or "training"."""
        request = metric_service_pb2.QueryMetricsRequest(
            job=self.name, kind=metric_kind(kind), page_size=10 * _PAGE
        )
        points: list[metric_service_pb2.MetricPoint] = []
        while True:
            page = self._client.call(self._client.stubs.metric.QueryMetrics, request)
            points += page.points
            if not page.HasField("next_step"):
                return MetricTable(points)
            request.start_step = page.next_step

    def stream_metrics(
        self, kind: str | None = None, after_sequence: int = 0
    ) -> Iterator[metric_service_pb2.MetricPoint]:
        """Metrics as they are committed, history first, each once, until the job has ended.

        After a recovery a step may come again, with the newer attempt: that point stands.
        """
        cursor = MetricCursor(self.name, metric_kind(kind), after_sequence)
        yield from self._client.follow(self._client.stubs.metric.StreamMetrics, cursor)

    def logs(self, follow: bool = False) -> Iterator[str]:
        """What the workers printed, in whole lines; with `follow` until the job has ended."""
        cursor = LogCursor(self.name, follow)
        yield from self._client.follow(self._client.stubs.job.ReadLogs, cursor)

    def checkpoints(self) -> list[Checkpoint]:
        """The published checkpoints, oldest step first."""
        request = checkpoint_service_pb2.ListCheckpointsRequest(parent=self.name, page_size=_PAGE)
        found: list[Checkpoint] = []
        while True:
            page = self._client.call(self._client.stubs.checkpoint.ListCheckpoints, request)
            found.extend(Checkpoint(self._client, each) for each in page.checkpoints)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    def checkpoint(self, which: str = "best") -> Checkpoint:
        """One of them: "best", "latest" or a folder's name such as step-000001000."""
        request = checkpoint_service_pb2.GetCheckpointRequest(
            name=f"{self.name}/checkpoints/{which}"
        )
        found = self._client.call(self._client.stubs.checkpoint.GetCheckpoint, request)
        return Checkpoint(self._client, found)

    def _update(self, method: Any, request: Any) -> Job:
        self.proto = self._client.call(method, request)
        return self


class Checkpoint(CheckpointRecord):
    """A published checkpoint; they never change."""

    def __init__(self, client: Client, proto: checkpoint_service_pb2.Checkpoint) -> None:
        self._client = client
        self.proto = proto

    def download(self, folder: str | PathLike[str], on_progress: OnProgress | None = None) -> Path:
        """Puts the files into `folder`, which appears whole and verified or not at all.

        What an earlier try left in FOLDER.partial is gone on with. Returns the folder.
        """
        download = Download(self.proto, Path(folder))
        if download.is_complete():
            return Path(folder)
        download.prepare()
        for transfer in download.transfers():
            with closing(transfer):
                method = self._client.stubs.checkpoint.ReadFile
                for count in self._client.follow(method, transfer):
                    download.bytes_done += count
                    if on_progress is not None:
                        on_progress(download.bytes_done, download.bytes_total)
        download.finish()
        return Path(folder)
