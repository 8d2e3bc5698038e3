"""The client for asyncio: the twin of lorsa/client/blocking.py, with the same names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
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
from lorsa.client.errors import NotFoundError, RpcError, from_grpc
from lorsa.client.metric_table import MetricTable, metric_kind
from lorsa.client.records import CheckpointRecord, JobRecord, ResolvedJob, SweepRecord
from lorsa.client.spec import (
    AnySpec,
    Policy,
    Spec,
    create_job_request,
    create_sweep_request,
    fork_job_request,
    list_jobs_request,
    program_spec,
    update_job_request,
)
from lorsa.client.upload import FileUpload, OnProgress, SetUpload
from lorsa.v1 import (
    activation_service_pb2,
    checkpoint_service_pb2,
    job_pb2,
    job_service_pb2,
    metric_service_pb2,
    server_info_service_pb2,
    sweep_pb2,
)

Item = TypeVar("Item")
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

    async def submit(self, spec: AnySpec, job_id: str | None = None, policy: Policy = None) -> Job:
        """Queues a job. `spec`: what to train, as a dict, a TrainingSpec, or the path of a
        textproto or JSON file; or a JobSpec of any kind.

        `policy`: priority, labels, ttl, deadline, step_timeout and webhook, as a dict or a
        JobPolicy.
        """
        request = create_job_request(spec, job_id, policy=policy)
        return Job(self, await self.call(self.stubs.job.CreateJob, request))

    async def run(
        self,
        kind: str,
        parameters: Mapping[str, Any] | None = None,
        job_id: str | None = None,
        policy: Policy = None,
        activation_set: str | None = None,
        **fields: Any,
    ) -> Job:
        """Queues a job of a kind that the server's configuration names (docs/workers.md).

        `activation_set`: id of the set that it reads. `fields`: threads, memory_bytes and
        keep_checkpoints, as in ProgramSpec.
        """
        spec = program_spec(kind, parameters, activation_set, **fields)
        return await self.submit(spec, job_id, policy)

    async def resolve(self, spec: Spec) -> ResolvedJob:
        """What a job would run as and what it would take; nothing is queued."""
        request = create_job_request(spec, None, validate_only=True)
        return ResolvedJob.of(await self.call(self.stubs.job.CreateJob, request))

    async def job(self, job_id: str) -> Job:
        """A job by its id."""
        request = job_service_pb2.GetJobRequest(name=f"jobs/{job_id}")
        return Job(self, await self.call(self.stubs.job.GetJob, request))

    async def jobs(
        self,
        state: str | None = None,
        labels: Mapping[str, str] | None = None,
        sweep: str | None = None,
    ) -> AsyncIterator[Job]:
        """Jobs, newest first: those in a state ("RUNNING"), with all of the labels, of a sweep."""
        request = list_jobs_request(state, labels, sweep)
        async for page in self.pages(self.stubs.job.ListJobs, request):
            for each in page.jobs:
                yield Job(self, each)

    async def submit_sweep(
        self,
        spec: Spec,
        parameters: Mapping[str, Sequence[Any]],
        sweep_id: str | None = None,
        policy: Policy = None,
    ) -> Sweep:
        """Queues a job for each combination of values: {"top_k": [32, 64], "seed": [0, 1]}."""
        request = create_sweep_request(spec, parameters, sweep_id, policy)
        return Sweep(self, await self.call(self.stubs.job.CreateSweep, request))

    async def sweep(self, sweep_id: str) -> Sweep:
        """A sweep by its id."""
        request = job_service_pb2.GetSweepRequest(name=f"sweeps/{sweep_id}")
        return Sweep(self, await self.call(self.stubs.job.GetSweep, request))

    async def sweeps(self) -> AsyncIterator[Sweep]:
        """All sweeps, newest first."""
        async for page in self.pages(
            self.stubs.job.ListSweeps, job_service_pb2.ListSweepsRequest()
        ):
            for each in page.sweeps:
                yield Sweep(self, each)

    async def import_checkpoint(
        self, job_id: str, path: str | PathLike[str], on_progress: OnProgress | None = None
    ) -> Checkpoint:
        """Makes a job, already ended, of a checkpoint's folder on the server, below one of its
        activation roots; `fork` goes on from it.
        """
        request = checkpoint_service_pb2.ImportCheckpointRequest(job_id=job_id, path=str(path))
        method = self.stubs.checkpoint.ImportCheckpoint
        return Checkpoint(self, await self.outcome(method, request, "checkpoint", on_progress))

    async def call(self, method: Any, request: Any) -> Any:
        """One call with one answer."""
        try:
            response = await method(
                request, timeout=self._timeout, metadata=self.address.call_metadata()
            )
        except grpc.aio.AioRpcError as error:
            raise self._typed(error) from error
        self._answered = True
        return response

    async def stream(
        self, method: Any, request: Any, timeout: float | None = None
    ) -> AsyncIterator[Any]:
        """One call with a stream of answers, on one connection."""
        call = method(request, timeout=timeout, metadata=self.address.call_metadata())
        try:
            async for response in call:
                self._answered = True
                yield response
        except grpc.aio.AioRpcError as error:
            raise self._typed(error) from error
        finally:
            call.cancel()

    async def pages(self, method: Any, request: Any) -> AsyncIterator[Any]:
        """Each page of a list."""
        request.page_size = _PAGE
        while True:
            page = await self.call(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def outcome(
        self, method: Any, request: Any, item: str, on_progress: OnProgress | None
    ) -> Any:
        """What a long pass on the server came to: the `item` of its last message."""
        async for response in self.stream(method, request):
            if response.WhichOneof("item") == item:
                return getattr(response, item)
            if on_progress is not None:
                on_progress(response.progress.bytes_done, response.progress.bytes_total)
        raise RpcError("The server did not answer with an outcome: try again.", "INTERNAL")

    async def send(self, method: Any, requests: Iterator[Any]) -> Any:
        """One call with a stream of requests."""
        try:
            response = await method(requests, metadata=self.address.call_metadata())
        except grpc.aio.AioRpcError as error:
            raise self._typed(error) from error
        self._answered = True
        return response

    def reconnection(self) -> Reconnection:
        """When to try again after a connection broke."""
        return Reconnection(self._patience, self._answered)

    async def follow(
        self, method: Any, cursor: Cursor[Item], deadline: float | None = None
    ) -> AsyncIterator[Item]:
        """What a cursor gives until it has ended, over as many connections as it takes.

        `deadline`: of time.monotonic(); TimeoutError when it is over.
        """
        reconnection = self.reconnection()
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

    async def upload(
        self, set_id: str, folder: str | PathLike[str], on_progress: OnProgress | None = None
    ) -> activation_service_pb2.ActivationSet:
        """Sends the set in a folder of this machine and registers it; `folder` may be unsealed.

        Goes on where an earlier try stopped, and by itself when the connection breaks. A set that
        is registered under this id already is answered with, if it is this one.
        """
        upload = SetUpload(set_id, Path(folder), on_progress)
        if (found := await self._registered(set_id, upload)) is not None:
            return found
        for file in upload.files:
            await self._send(file)
        return await self.register(set_id)

    async def register(
        self,
        set_id: str,
        path: str | PathLike[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> activation_service_pb2.ActivationSet:
        """Registers a folder on the server, below one of its activation roots, or without `path`
        what was uploaded under this id; reads all of it.
        """
        request = activation_service_pb2.RegisterActivationSetRequest(
            activation_set_id=set_id, path="" if path is None else str(path)
        )
        method = self._client.stubs.activation.RegisterActivationSet
        registered: activation_service_pb2.ActivationSet
        registered = await self._client.outcome(method, request, "activation_set", on_progress)
        return registered

    async def get(self, set_id: str) -> activation_service_pb2.ActivationSet:
        """What the server knows of a set."""
        request = activation_service_pb2.GetActivationSetRequest(name=f"activationSets/{set_id}")
        method = self._client.stubs.activation.GetActivationSet
        found: activation_service_pb2.ActivationSet = await self._client.call(method, request)
        return found

    async def list(self) -> AsyncIterator[activation_service_pb2.ActivationSet]:
        """All sets, in order of id."""
        request = activation_service_pb2.ListActivationSetsRequest()
        method = self._client.stubs.activation.ListActivationSets
        async for page in self._client.pages(method, request):
            for each in page.activation_sets:
                yield each

    async def verify(
        self, set_id: str, on_progress: OnProgress | None = None
    ) -> activation_service_pb2.VerificationReport:
        """Has the server read every byte again; damage is told in the report."""
        request = activation_service_pb2.VerifyActivationSetRequest(name=f"activationSets/{set_id}")
        method = self._client.stubs.activation.VerifyActivationSet
        report: activation_service_pb2.VerificationReport
        report = await self._client.outcome(method, request, "report", on_progress)
        return report

    async def delete(self, set_id: str) -> None:
        """Forgets a set; its files are removed only if they were uploaded."""
        request = activation_service_pb2.DeleteActivationSetRequest(name=f"activationSets/{set_id}")
        await self._client.call(self._client.stubs.activation.DeleteActivationSet, request)

    async def _registered(
        self, set_id: str, upload: SetUpload
    ) -> activation_service_pb2.ActivationSet | None:
        try:
            found = await self.get(set_id)
        except NotFoundError:
            return None
        return found if found.manifest_sha256 == upload.manifest_sha256() else None

    async def _send(self, file: FileUpload) -> None:
        reconnection = self._client.reconnection()
        stub = self._client.stubs.activation
        await asyncio.to_thread(file.prepare)
        while True:
            try:
                if file.has_advanced(await self._client.call(stub.GetUpload, file.question())):
                    reconnection.received()
                broken = file.broken(await self._client.send(stub.UploadShard, file.requests()))
            except RpcError as error:
                broken = file.broken(error)
            if broken is None:
                return
            await asyncio.sleep(reconnection.pause_after(broken))


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

    async def retry(self) -> Job:
        """Queues a failed job again; it goes on from its newest checkpoint."""
        request = job_service_pb2.RetryJobRequest(name=self.name)
        return await self._update(self._client.stubs.job.RetryJob, request)

    async def update(self, policy: Mapping[str, Any]) -> Job:
        """Changes how the job is queued, watched over and kept: {"priority": 10, "ttl": None}.

        Fields as in JobPolicy; None takes a setting away.
        """
        request = update_job_request(self.name, policy)
        return await self._update(self._client.stubs.job.UpdateJob, request)

    async def delete(self, force: bool = False) -> None:
        """Removes a job that has ended, with its metrics, logs and checkpoints; `force`: also one
        with a pinned checkpoint.
        """
        request = job_service_pb2.DeleteJobRequest(name=self.name, force=force)
        await self._client.call(self._client.stubs.job.DeleteJob, request)

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

    async def metrics(self, kind: str = "evaluation", max_points: int | None = None) -> MetricTable:
        """All metrics so far; `kind`: "evaluation" or "training".

        With `max_points`, 2 to 10,000, a long history is thinned to at most so many of its points.
        """
        request = metric_service_pb2.QueryMetricsRequest(job=self.name, kind=metric_kind(kind))
        if max_points is None:
            request.page_size = 10 * _PAGE
        else:
            request.max_points = max_points
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
        request = checkpoint_service_pb2.ListCheckpointsRequest(parent=self.name)
        method = self._client.stubs.checkpoint.ListCheckpoints
        pages = self._client.pages(method, request)
        return [Checkpoint(self._client, each) async for page in pages for each in page.checkpoints]

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

    async def fork(self, changes: Spec, job_id: str | None = None, policy: Policy = None) -> Job:
        """Queues a job that goes on from here with some fields of its specification changed."""
        request = fork_job_request(self.name, changes, job_id, policy)
        return Job(self._client, await self._client.call(self._client.stubs.job.ForkJob, request))

    async def pin(self) -> Checkpoint:
        """Has it kept whatever the job's retention says; returns this checkpoint."""
        request = checkpoint_service_pb2.PinCheckpointRequest(name=self.name)
        self.proto = await self._client.call(self._client.stubs.checkpoint.PinCheckpoint, request)
        return self

    async def unpin(self) -> Checkpoint:
        """Leaves it to the job's retention again; returns this checkpoint."""
        request = checkpoint_service_pb2.UnpinCheckpointRequest(name=self.name)
        self.proto = await self._client.call(self._client.stubs.checkpoint.UnpinCheckpoint, request)
        return self

    async def delete(self) -> None:
        """Removes it; not a pinned one, nor the newest of a job that has not ended."""
        request = checkpoint_service_pb2.DeleteCheckpointRequest(name=self.name)
        await self._client.call(self._client.stubs.checkpoint.DeleteCheckpoint, request)

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


class Sweep(SweepRecord):
    """A group of jobs as it was when it was last asked for; `refresh` asks again."""

    def __init__(self, client: Client, proto: sweep_pb2.Sweep) -> None:
        self._client = client
        self.proto = proto

    async def refresh(self) -> Sweep:
        """Asks the server again; returns this sweep."""
        request = job_service_pb2.GetSweepRequest(name=self.name)
        self.proto = await self._client.call(self._client.stubs.job.GetSweep, request)
        return self

    async def cancel(self) -> Sweep:
        """Cancels each of its jobs that has not ended."""
        request = job_service_pb2.CancelSweepRequest(name=self.name)
        self.proto = await self._client.call(self._client.stubs.job.CancelSweep, request)
        return self

    async def jobs(self) -> AsyncIterator[Job]:
        """Its jobs, newest first."""
        async for job in self._client.jobs(sweep=self.id):
            yield job

    async def wait(self, timeout: float | None = None) -> Sweep:
        """Returns this sweep when all of its jobs have ended; TimeoutError after `timeout` s."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for job in [each async for each in self.jobs()]:
            await job.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return await self.refresh()
