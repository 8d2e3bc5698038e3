"""lorsa.Client and lorsa.aio.Client against the real lorsad."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import pathlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import lorsa
import numpy as np
import pytest
from cutting_proxy import CuttingProxy
from finished_job import SPEC, service_with_finished_job
from lorsa.client import Checkpoint, Client, Job, Patience, asynchronous, blocking
from lorsa.client.download import FileTransfer
from lorsa.client.errors import (
    AlreadyExistsError,
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lorsa.errors import LorsaError
from lorsa.v1 import job_pb2
from lorsa.v1.training_spec_pb2 import TrainingSpec
from service import PATIENCE, Service, wait_for
from synthetic_set import write_set

LONG = SPEC | {"tokens": 25600}  # 200 steps


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service_with_finished_job(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.address, patience=Patience(0.05, 0.2, PATIENCE)) as client:
        yield client


def test_the_server_and_its_sets_describe_themselves(client: Client, service: Service) -> None:
    assert str(service.sets) in client.server_info().activation_roots
    found = client.sets.get("set")
    assert [each.name for each in client.sets.list()] == [found.name] == ["activationSets/set"]
    assert (found.d_model, found.sequences) == (32, 300)


def test_registering_reports_progress(client: Client, service: Service) -> None:
    write_set(service.sets / "other", sequences=140, seed=3)
    seen: list[tuple[int, int]] = []
    registered = client.sets.register(
        "other", service.sets / "other", lambda done, total: seen.append((done, total))
    )
    assert registered.sequences == 140
    assert all(0 <= done <= total for done, total in seen)


def test_a_job_is_submitted_from_a_dict_a_message_and_files(
    client: Client, tmp_path: pathlib.Path
) -> None:
    message = TrainingSpec(**SPEC)
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    (tmp_path / "spec.textproto").write_text(str(message))
    for spec in (SPEC, message, tmp_path / "spec.json", str(tmp_path / "spec.textproto")):
        resolved = client.resolve(spec).spec
        assert (resolved.top_k, resolved.sequences_per_step) == (8, 4)
        assert resolved.learning_rate > 0, "defaults are filled in"
    with pytest.raises(LorsaError, match="no field named"):
        client.resolve(SPEC | {"topk": 3})
    with pytest.raises(LorsaError, match="is missing"):
        client.resolve(tmp_path / "nothing.json")


def test_what_a_job_takes_is_told_before_it_is_queued(client: Client) -> None:
    small, large = client.resolve(SPEC), client.resolve(SPEC | {"n_ov_heads": 64_000})
    assert 0 < small.memory_bytes < large.memory_bytes
    assert 0 < small.disk_bytes < large.disk_bytes
    assert "weights" in small.memory_parts
    assert small.seconds is not None, "a job like it has succeeded"
    assert small.seconds > 0
    assert [each.id for each in client.jobs()].count("done") == 1


def test_a_finished_job_has_metrics_logs_and_checkpoints(client: Client) -> None:
    job = client.job("done")
    assert (job.state, job.has_ended, job.id) == ("SUCCEEDED", True, "done")
    assert job.id in [each.id for each in client.jobs()]
    table = job.metrics()
    assert list(table["step"]) == [0, 10, 20, 30, 40, 50]
    assert table["fvu"][-1] < table["fvu"][0]
    training = job.metrics("training")
    assert len(training) >= 10
    assert training["tokens"].dtype == np.int64
    thinned = job.metrics("training", max_points=5)["step"].tolist()
    assert 2 <= len(thinned) <= 5
    assert (thinned[0], thinned[-1]) == (training["step"][0], training["step"][-1])
    checkpoints = job.checkpoints()
    assert [each.step for each in checkpoints] == sorted(each.step for each in checkpoints)
    assert job.checkpoint("latest").step == 50
    assert job.checkpoint().fvu == min(table["fvu"])
    assert "".join(job.logs()).count("\n") > 0


def test_watching_gives_the_job_and_each_event_once(client: Client) -> None:
    first, *rest = client.job("done").watch()
    assert isinstance(first, job_pb2.Job)
    revisions = [each.revision for each in rest if isinstance(each, job_pb2.JobEvent)]
    assert revisions == list(range(1, first.revision + 1))
    later = list(client.job("done").watch(after_revision=first.revision - 1))
    assert [each.revision for each in later if isinstance(each, job_pb2.JobEvent)] == [
        first.revision
    ]


def test_a_job_is_paused_resumed_and_cancelled(client: Client) -> None:
    job = client.submit(SPEC | {"tokens": 10_000_000})
    wait_for("the job to run", lambda: job.refresh().state == "RUNNING")
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.2)
    assert job.pause().state in ("PAUSING", "PAUSED")
    wait_for("the job to pause", lambda: job.refresh().state == "PAUSED")
    assert job.resume().state in ("QUEUED", "STARTING", "RUNNING")
    job.cancel()
    assert job.wait(PATIENCE).state == "CANCELLED"
    with pytest.raises(FailedPreconditionError) as error:
        job.cancel()
    assert error.value.reason


def test_errors_are_typed_and_say_what_is_wrong(client: Client, service: Service) -> None:
    with pytest.raises(NotFoundError) as missing:
        client.job("nowhere")
    assert missing.value.code == "NOT_FOUND"
    assert missing.value.reason
    line = f"request={missing.value.request_id} "
    assert line in service.log.read_text()  # written before the answer
    with pytest.raises(InvalidArgumentError) as invalid:
        client.submit(SPEC | {"n_ov_heads": 60, "top_k": 100})
    assert {field.split(".")[-1] for field in invalid.value.fields} >= {"n_ov_heads", "top_k"}
    assert "top_k" in str(invalid.value)
    with pytest.raises(AlreadyExistsError):
        client.submit(SPEC, "done")
    with pytest.raises(PermissionDeniedError) as outside:
        client.sets.register("outside", "/etc")
    assert outside.value.reason == "OUTSIDE_ACTIVATION_ROOTS"


def test_a_server_that_is_not_there_is_reported_at_once() -> None:
    with Client("127.0.0.1:9", timeout=5) as client:
        with pytest.raises(UnavailableError, match="is lorsad running there"):
            client.job("any")
        with pytest.raises(UnavailableError):
            next(client.follow(client.stubs.job.WatchJob, blocking.JobCursor("jobs/any", 0)))
    with pytest.raises(LorsaError, match="give HOST:PORT"):
        Client("localhost")


# --- Downloads. ---


def _digests(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def _listed(checkpoint: Checkpoint) -> dict[str, str]:
    return {file.name: file.sha256 for file in checkpoint.proto.files}


def test_a_download_goes_on_through_a_network_that_breaks_twenty_times(
    client: Client, tmp_path: pathlib.Path
) -> None:
    job = client.submit(SPEC | {"n_ov_heads": 32768, "tokens": 256})
    assert job.wait(PATIENCE).state == "SUCCEEDED"
    checkpoint = job.checkpoint("latest")
    total = sum(file.size_bytes for file in checkpoint.proto.files)
    chance = random.Random(5)
    cuts = [chance.randint(100_000, 2_000_000) for _ in range(20)]
    patience = Patience(0.05, 0.2, PATIENCE)
    seen: list[int] = []
    with (
        CuttingProxy(client.address.server, cuts) as proxy,
        Client(proxy.address, patience=patience) as through,
    ):
        found = through.job(job.id).checkpoint("latest")
        found.download(tmp_path / "out", lambda done, of: seen.append(done))
        assert proxy.cut == 20
        assert proxy.uncut_bytes < 0.8 * total, "what had come before was not sent again"
    assert _digests(tmp_path / "out") == _listed(checkpoint)
    assert seen == sorted(set(seen))
    assert seen[-1] == total


class CutError(Exception):
    """What ends a download at a chosen byte."""


def test_a_download_that_dies_twenty_times_resumes_to_the_same_bytes(
    client: Client, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try is ended after a random number of bytes, in the middle of a chunk."""
    checkpoint = client.job("done").checkpoint()
    total = sum(file.size_bytes for file in checkpoint.proto.files)
    chance = random.Random(4)
    cuts = sorted(chance.sample(range(1, total), 20))
    whole = FileTransfer.handle
    written = 0
    until = 0

    def handle(transfer: FileTransfer, response: Any) -> Iterator[int]:
        """Writes the chunk up to the cut, as a process that dies there would have."""
        nonlocal written
        room = until - written
        if room < len(response.data):
            transfer._file.write(response.data[:room])
            transfer._file.flush()
            written += room
            raise CutError
        written += len(response.data)
        yield from whole(transfer, response)

    monkeypatch.setattr(FileTransfer, "handle", handle)
    for cut in cuts:
        until = cut
        with pytest.raises(CutError):
            checkpoint.download(tmp_path / "out")
        assert not (tmp_path / "out").exists()
    until = total
    seen: list[int] = []
    checkpoint.download(tmp_path / "out", lambda done, of: seen.append(done))
    assert _digests(tmp_path / "out") == _listed(checkpoint)
    assert seen[-1] == total
    assert written == total, "nothing was fetched twice"
    assert checkpoint.download(tmp_path / "out") == tmp_path / "out", "and it is there already"


def test_a_damaged_beginning_is_found_and_fetched_anew(
    client: Client, tmp_path: pathlib.Path
) -> None:
    checkpoint = client.job("done").checkpoint()
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "lorsa.safetensors").write_bytes(b"\0" * 100)
    checkpoint.download(tmp_path / "out")
    assert _digests(tmp_path / "out") == _listed(checkpoint)


def test_what_is_not_the_checkpoint_is_left_alone(client: Client, tmp_path: pathlib.Path) -> None:
    checkpoint = client.job("done").checkpoint()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("")
    with pytest.raises(AlreadyExistsError, match="choose another folder"):
        checkpoint.download(tmp_path / "taken")
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "thesis.tex").write_text("")
    with pytest.raises(AlreadyExistsError, match=r"holds thesis\.tex"):
        checkpoint.download(tmp_path / "out")


def test_damaged_chunks_are_asked_for_again_and_then_given_up(
    client: Client, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = client.job("done").checkpoint()
    damaged = 0
    whole = FileTransfer.handle

    def handle(transfer: FileTransfer, response: Any) -> Iterator[int]:
        nonlocal damaged
        if damaged > 0:
            damaged -= 1
            response.crc32c ^= 1
        yield from whole(transfer, response)

    monkeypatch.setattr(FileTransfer, "handle", handle)
    damaged = 3
    checkpoint.download(tmp_path / "out")
    assert _digests(tmp_path / "out") == _listed(checkpoint)
    damaged = 100
    with pytest.raises(DataLossError, match="5 times in a row"):
        checkpoint.download(tmp_path / "other")


# --- Restarts of the server. ---


def test_a_watch_survives_restarts_without_a_lost_or_doubled_point(
    tmp_path: pathlib.Path,
) -> None:
    patience = Patience(0.05, 0.2, PATIENCE)
    with Service(tmp_path) as service, Client(service.address, patience=patience) as client:
        service.add_set()
        job = client.submit(LONG, "job")
        points: list[Any] = []
        updates: list[Any] = []
        logs: list[str] = []
        followers = [
            threading.Thread(target=lambda: points.extend(job.stream_metrics())),
            threading.Thread(target=lambda: updates.extend(job.watch())),
            threading.Thread(target=lambda: logs.extend(job.logs(follow=True))),
        ]
        for follower in followers:
            follower.start()
        for kills in range(2):
            wait_for(
                "some more metrics", lambda k=kills: len(job.metrics("training")) > 20 * (k + 1)
            )
            service.kill()
            service.start()
        for follower in followers:
            follower.join(PATIENCE)
            assert not follower.is_alive()
        assert job.refresh().state == "SUCCEEDED"

        keys = [(point.kind, point.step) for point in points]
        assert len(set(keys)) == len(keys), "a point came twice"
        for kind, number in (("training", 1), ("evaluation", 2)):
            steps = sorted(step for of, step in keys if of == number)
            assert steps == list(job.metrics(kind)["step"]), "a point is missing"
        events = [each for each in updates if isinstance(each, job_pb2.JobEvent)]
        assert [each.revision for each in events] == list(range(1, len(events) + 1))
        assert sum(isinstance(each, job_pb2.Job) for each in updates) == 1
        assert "".join(logs) == "".join(job.logs())


# --- asyncio. ---


def test_the_twin_for_asyncio_does_the_same(service: Service, tmp_path: pathlib.Path) -> None:
    async def use() -> None:
        async with lorsa.aio.Client(service.address) as client:
            assert (await client.server_info()).version
            assert [each.name async for each in client.sets.list()][-1] == "activationSets/set"
            job = await client.submit(SPEC)
            updates = [each async for each in job.watch()]
            assert isinstance(updates[0], job_pb2.Job)
            assert (await job.refresh()).state == "SUCCEEDED"
            points = [each async for each in job.stream_metrics("evaluation")]
            table = await job.metrics()
            assert [each.step for each in points] == list(table["step"])
            checkpoint = await job.checkpoint("best")
            await checkpoint.download(tmp_path / "out")
            assert _digests(tmp_path / "out") == {f.name: f.sha256 for f in checkpoint.proto.files}
            assert "".join([text async for text in job.logs()])
            with pytest.raises(NotFoundError):
                await client.job("nowhere")
            running = await client.submit(SPEC | {"tokens": 10_000_000})
            with pytest.raises(TimeoutError):
                await running.wait(timeout=0.2)
            await running.cancel()
            assert (await running.wait(PATIENCE)).state == "CANCELLED"

    asyncio.run(use())


def test_the_twins_have_the_same_methods() -> None:
    for name in ("Client", "ActivationSets", "Job", "Checkpoint", "Sweep"):
        ours, twin = getattr(blocking, name), getattr(asynchronous, name)
        for method, function in vars(ours).items():
            if method.startswith("_") or not inspect.isfunction(function):
                continue
            theirs = vars(twin)[method]
            assert list(inspect.signature(function).parameters) == list(
                inspect.signature(theirs).parameters
            ), f"{name}.{method}"
            assert function.__doc__ == theirs.__doc__, f"{name}.{method}"


def test_a_token_goes_with_each_call(service: Service) -> None:
    client = Client(service.address, token="secret")
    assert ("authorization", "Bearer secret") in client.address.call_metadata()
    assert client.address.credentials is None
    with Client(service.address, tls=True) as secure, pytest.raises(UnavailableError):
        secure.job("done")  # the server speaks no TLS
    assert isinstance(
        Client(service.address, tls=True).address.credentials, grpc.ChannelCredentials
    )
    assert isinstance(client.job("done"), Job)
