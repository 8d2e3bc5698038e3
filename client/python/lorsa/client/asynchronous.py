"""The client for asyncio: the twin of lorsa/client/blocking.py, with the same names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio

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
    """A connection to lorsad, made in a running event loop. Connects when first used.

        async with lorsa.aio.Client("127.0.0.1:7070") as client:
            job = await client.submit({"activation_set": "smollm2-l12"})
            async for update in job.watch():
                print(update)
            checkpoint = await job.checkpoint("best")
            await checkpoint.download("lorsa-l12")

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
        self._channel: grpc.aio.Channel = open_channel(self.address, grpc.aio)
        self.stubs = Stubs(self._channel)
        self.sets = ActivationSets(self)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all calls."""
        await self._channel.close()

    async def server_info(self) -> server_info_service_pb2.ServerInfo:
        """Version, limits and load of the server."""
        request = server_info_service_pb2.GetServerInfoRequest()
        info: server_info_service_pb2.ServerInfo
        info = await self.call(self.stubs.server_info.GetServerInfo, request)
        return info

    async def submit(self, spec: Spec, job_id: str | None = None) -> Job:
        """Queues a job. `spec`: a dict, a TrainingSpec, or the path of a textproto or JSON file."""
        return Job(
            self, await self.call(self.stubs.job.CreateJob, create_job_request(spec, job_id, False))
        )

    async def resolve(self, spec: Spec) -> ResolvedJob:
        """What a job would run as and what it would take; nothing is queued."""
        request = create_job_request(spec, None, validate_only=True)
        return ResolvedJob.of(await self.call(self.stubs.job.CreateJob, request))

    async def job(self, job_id: str) -> Job:
        """A job by its id."""
        request = job_service_pb2.GetJobRequest(name=f"jobs/{job_id}")
        return Job(self, await self.call(self.stubs.job.GetJob, request))

    async def jobs(self) -> AsyncIterator[Job]:
        """All jobs, newest first."""
        request = job_service_pb2.ListJobsRequest(page_size=_PAGE)
        while True:
            page: job_service_pb2.ListJobsResponse = await self.call(
                self.stubs.job.ListJobs, request
            )
            for each in page.jobs:
                yield Job(self, each)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def call(self, method: Any, request: Any) -> Any:
        """One call with one answer."""
        try:
            response = await method(request, timeout=self._timeout, metadata=self.address.metadata)
        except grpc.aio.AioRpcError as error:
            raise self._typed(error) from error
        self._answered = True
        return response

    async def stream(
        self, method: Any, request: Any, timeout: float | None = None
    ) -> AsyncIterator[Any]:
        """One call with a stream of answers, on one connection."""
        call = method(request, timeout=timeout, metadata=self.address.metadata)
        try:
            async for response in call:
                self._answered = True
                yield response
        except grpc.aio.AioRpcError as error:
            raise self._typed(error) from error
        finally:
            call.cancel()

    async def follow(
        self, method: Any, cursor: Cursor[Item], deadline: float | None = None
    ) -> AsyncIterator[Item]:
        """What a cursor gives until it has ended, over as many connections as it takes.

        `deadline`: of time.monotonic(); TimeoutError when it is over.
        """
        reconnection = Reconnection(self._patience, self._answered)
        while not cursor.ended:
            try:
                left = None if deadline is None else max(0.001, deadline - time.monotonic())
                async for response in self.stream(method, cursor.request(), left):
                    reconnection.received()
                    for item in cursor.handle(response):
                        yield item
                broken = cursor.closed()
            except RpcError as error:
                if error.code == "DEADLINE_EXCEEDED":
                    raise TimeoutError(f"{cursor.what} took too long") from error
                broken = error
            if broken is not None and not cursor.ended:
                await asyncio.sleep(reconnection.pause_after(broken))

    def _typed(self, error: grpc.aio.AioRpcError) -> RpcError:
        typed = from_grpc(error, self.address.server)
        self._answered = self._answered or not typed.is_transient
        return typed


class ActivationSets:
    """The activation sets of a server: client.sets."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def register(
        self, set_id: str, path: str | PathLike[str], on_progress: OnProgress | None = None
    ) -> activation_service_pb2.ActivationSet:
        """Registers a folder on the server, below one of its activation roots; reads all of it."""
        request = activation_service_pb2.RegisterActivationSetRequest(
            activation_set_id=set_id, path=str(path)
        )
        method = self._client.stubs.activation.RegisterActivationSet
        async for response in self._client.stream(method, request):
            if response.WhichOneof("item") == "activation_set":
                registered: activation_service_pb2.ActivationSet = response.activation_set
                return registered
            if on_progress is not None:
                on_progress(response.progress.bytes_done, response.progress.bytes_total)
        raise RpcError("The server did not answer with the set: register it again.", "INTERNAL")

    async def get(self, set_id: str) -> activation_service_pb2.ActivationSet:
        """What the server knows of a set."""
        request = activation_service_pb2.GetActivationSetRequest(name=f"activationSets/{set_id}")
        method = self._client.stubs.activation.GetActivationSet
        found: activation_service_pb2.ActivationSet = await self._client.call(method, request)
        return found

    async def list(self) -> AsyncIterator[activation_service_pb2.ActivationSet]:
        """All sets, in order of id."""
        request = activation_service_pb2.ListActivationSetsRequest(page_size=_PAGE)
        while True:
            method = self._client.stubs.activation.ListActivationSets
            page: activation_service_pb2.ListActivationSetsResponse
            page = await self._client.call(method, request)
            for each in page.activation_sets:
                yield each
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


class Job(JobRecord):
    """A training job as it was when it was last asked for; `refresh` asks again."""

    def __init__(self, client: Client, proto: job_pb2.Job) -> None:
        self._client = client
        self.proto = proto

    async def refresh(self) -> Job:
        """Asks the server again; returns this job."""
        request = job_service_pb2.GetJobRequest(name=self.name)
        return await self._update(self._client.stubs.job.GetJob, request)

    async def pause(self) -> Job:
        """Asks the worker to checkpoint and stop; returns at once."""
        request = job_service_pb2.PauseJobRequest(name=self.name)
        return await self._update(self._client.stubs.job.PauseJob, request)

    async def resume(self) -> Job:
        """Queues a paused job again."""
        request = job_service_pb2.ResumeJobRequest(name=self.name)
        return await self._update(self._client.stubs.job.ResumeJob, request)

    async def cancel(self) -> Job:
        """Ends the job; its checkpoints stay."""
        request = job_service_pb2.CancelJobRequest(name=self.name)
        return await self._update(self._client.stubs.job.CancelJob, request)

    async def watch(self, after_revision: int = 0) -> AsyncIterator[JobUpdate]:
        """The job, then its events, each once, and its progress, until it has ended.

        Goes on by itself when the server restarts. Leaving the loop does nothing to the job.
        """
        cursor = JobCursor(self.name, after_revision)
        async for item in self._client.follow(self._client.stubs.job.WatchJob, cursor):
            yield item

    async def wait(self, timeout: float | None = None) -> Job:
        """Returns this job when it has ended, however; TimeoutError after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        cursor = JobCursor(self.name, 0)
        async for _ in self._client.follow(self._client.stubs.job.WatchJob, cursor, deadline):
            pass
        return await self.refresh()

    async def metrics(self, kind: str = "evaluation") -> MetricTable:
        """All metrics so far; `kind`: "evaluation" or "training"."""
        request = metric_service_pb2.QueryMetricsRequest(
            job=self.name, kind=metric_kind(kind), page_size=10 * _PAGE
        )
        points: list[metric_service_pb2.MetricPoint] = []
        while True:
            page = await self._client.call(self._client.stubs.metric.QueryMetrics, request)
            points += page.points
            if not page.HasField("next_step"):
                return MetricTable(points)
            request.start_step = page.next_step

    async def stream_metrics(
        self, kind: str | None = None, after_sequence: int = 0
    ) -> AsyncIterator[metric_service_pb2.MetricPoint]:
        """Metrics as they are committed, history first, each once, until the job has ended.

        After a recovery a step may come again, with the newer attempt: that point stands.
        """
        cursor = MetricCursor(self.name, metric_kind(kind), after_sequence)
        async for item in self._client.follow(self._client.stubs.metric.StreamMetrics, cursor):
            yield item

    async def logs(self, follow: bool = False) -> AsyncIterator[str]:
        """What the workers printed, in whole lines; with `follow` until the job has ended."""
        cursor = LogCursor(self.name, follow)
        async for item in self._client.follow(self._client.stubs.job.ReadLogs, cursor):
            yield item

    async def checkpoints(self) -> list[Checkpoint]:
        """The published checkpoints, oldest step first."""
        request = checkpoint_service_pb2.ListCheckpointsRequest(parent=self.name, page_size=_PAGE)
        found: list[Checkpoint] = []
        while True:
            page = await self._client.call(self._client.stubs.checkpoint.ListCheckpoints, request)
            found.extend(Checkpoint(self._client, each) for each in page.checkpoints)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def checkpoint(self, which: str = "best") -> Checkpoint:
        """One of them: "best", "latest" or a folder's name such as step-000001000."""
        request = checkpoint_service_pb2.GetCheckpointRequest(
            name=f"{self.name}/checkpoints/{which}"
        )
        found = await self._client.call(self._client.stubs.checkpoint.GetCheckpoint, request)
        return Checkpoint(self._client, found)

    async def _update(self, method: Any, request: Any) -> Job:
        self.proto = await self._client.call(method, request)
        return self


class Checkpoint(CheckpointRecord):
    """A published checkpoint; they never change."""

    def __init__(self, client: Client, proto: checkpoint_service_pb2.Checkpoint) -> None:
        self._client = client
        self.proto = proto

    async def download(
        self, folder: str | PathLike[str], on_progress: OnProgress | None = None
    ) -> Path:
        """Puts the files into `folder`, which appears whole and verified or not at all.

        What an earlier try left in FOLDER.partial is gone on with. Returns the folder.
        """
        download = Download(self.proto, Path(folder))
        if await asyncio.to_thread(download.is_complete):
            return Path(folder)
        await asyncio.to_thread(download.prepare)
        transfers = download.transfers()
        while (transfer := await asyncio.to_thread(next, transfers, None)) is not None:
            with closing(transfer):
                method = self._client.stubs.checkpoint.ReadFile
                async for count in self._client.follow(method, transfer):
                    download.bytes_done += count
                    if on_progress is not None:
                        on_progress(download.bytes_done, download.bytes_total)
        await asyncio.to_thread(download.finish)
        return Path(folder)
