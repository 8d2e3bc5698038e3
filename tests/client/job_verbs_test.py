"""Jobs forked, retried, labelled, swept and removed through lorsa.Client, on the real lorsad."""

from __future__ import annotations

import asyncio
import pathlib
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import lorsa
import pytest
from finished_job import SPEC, service_with_finished_job
from lorsa.client import Client
from lorsa.client.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from lorsa.errors import LorsaError
from lorsa.v1 import job_pb2
from service import PATIENCE, Service

SWEPT = {key: value for key, value in SPEC.items() if key != "top_k"}
ENDLESS = SPEC | {"tokens": 100_000_000}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service_with_finished_job(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.address) as client:
        yield client


def soon() -> str:
    """A deadline that is still to come when the server gets it."""
    return (datetime.now(timezone.utc) + timedelta(seconds=5)).isoformat()


def test_jobs_are_found_by_state_and_labels(client: Client) -> None:
    policy = {"priority": 7, "labels": {"paper": "l12"}, "ttl": "86400s"}
    job = client.submit(SPEC, policy=policy).wait(PATIENCE)
    assert job.labels == {"paper": "l12"}
    assert job.proto.policy.priority == 7
    assert [each.id for each in client.jobs(labels={"paper": "l12"})] == [job.id]
    assert {each.id for each in client.jobs(state="SUCCEEDED")} >= {job.id, "done"}
    assert list(client.jobs(state="RUNNING", labels={"paper": "l12"})) == []
    with pytest.raises(ValueError, match="STARVING"):
        list(client.jobs(state="STARVING"))
    with pytest.raises(LorsaError, match="not a job policy"):
        client.submit(SPEC, policy={"prio": 7})
    with pytest.raises(InvalidArgumentError):
        client.submit(SPEC, policy={"priority": 100_000})


def test_a_job_is_updated_field_by_field(client: Client, service: Service) -> None:
    policy = {"priority": 7, "labels": {"paper": "l12"}, "ttl": "86400s"}
    job = client.submit(ENDLESS, policy=policy)
    job.update({"labels": {"paper": "l24"}, "ttl": None})
    assert job.labels == {"paper": "l24"} and job.proto.policy.priority == 7
    assert not job.proto.policy.HasField("ttl")
    assert [each.id for each in client.jobs(labels={"paper": "l24"})] == [job.id]
    with pytest.raises(InvalidArgumentError) as error:
        job.update({"priority": 100_000})
    assert "job.policy.priority" in error.value.fields
    with pytest.raises(LorsaError, match="not a job policy"):
        job.update({"prio": 7})

    async def twin() -> None:
        async with lorsa.aio.Client(service.address) as client:
            same = await client.job(job.id)
            await same.update({"deadline": soon()})

    asyncio.run(twin())
    job.wait(PATIENCE)
    assert (job.state, job.proto.reason) == ("FAILED", "DEADLINE")


def test_a_job_is_forked_from_a_checkpoint_with_changes(client: Client) -> None:
    origin = client.job("done").checkpoint("latest")
    with pytest.raises(InvalidArgumentError) as error:
        origin.fork({"top_k": 4, "tokens": 12800})
    assert any("top_k" in field for field in error.value.fields)
    fork = origin.fork({"tokens": 12800, "learning_rate": 1e-4}, policy={"labels": {"a": "b"}})
    assert fork.wait(PATIENCE).state == "SUCCEEDED"
    assert (fork.proto.forked_from, fork.labels) == (origin.name, {"a": "b"})
    assert fork.checkpoint("latest").step == 100


def test_a_failed_job_is_retried_and_watched_on(client: Client) -> None:
    job = client.submit(ENDLESS, policy={"deadline": soon()})
    assert job.wait(PATIENCE).state == "FAILED"
    assert job.proto.reason == "DEADLINE"
    assert job.retry().state in ("QUEUED", "STARTING", "RUNNING")
    job.cancel()
    states = [each.to_state for each in job.watch() if isinstance(each, job_pb2.JobEvent)]
    assert job_pb2.JOB_STATE_FAILED in states[:-1], "the watch went on after it"
    assert states[-1] == job_pb2.JOB_STATE_CANCELLED
    with pytest.raises(FailedPreconditionError):
        job.retry()


def test_a_job_and_its_checkpoints_are_removed(client: Client) -> None:
    job = client.submit(SPEC).wait(PATIENCE)
    first, *_, last = job.checkpoints()
    assert last.pin().proto.pinned
    with pytest.raises(FailedPreconditionError):
        last.delete()
    first.delete()
    assert first.name not in [each.name for each in job.checkpoints()]
    with pytest.raises(FailedPreconditionError) as error:
        job.delete()
    assert error.value.reason == "PINNED_CHECKPOINT"
    assert not last.unpin().proto.pinned
    job.delete()
    with pytest.raises(NotFoundError):
        job.refresh()


def test_a_sweep_is_watched_over_as_one(client: Client) -> None:
    sweep = client.submit_sweep(SWEPT, {"top_k": [4, 8], "decoder_bias": [True, False]}, "k")
    assert sweep.wait(PATIENCE).states == {"SUCCEEDED": 4}
    jobs = list(sweep.jobs())
    assert {job.proto.resolved_spec.training.top_k for job in jobs} == {4, 8}
    assert {job.proto.resolved_spec.training.decoder_bias for job in jobs} == {True, False}
    fvus = {job.name: job.proto.best_fvu for job in jobs}
    assert sweep.best_fvu == min(fvus.values())
    assert fvus[sweep.proto.best_job] == sweep.best_fvu
    assert [each.id for each in client.sweeps()] == ["k"]
    assert client.sweep("k").states == {"SUCCEEDED": 4}
    endless = client.submit_sweep(SWEPT | {"tokens": 10_000_000}, {"top_k": [4, 8]})
    endless.cancel()
    assert endless.wait(PATIENCE).states == {"CANCELLED": 2}


def test_a_checkpoint_from_elsewhere_is_imported_and_gone_on_from(
    client: Client, service: Service, tmp_path: pathlib.Path
) -> None:
    folder = client.job("done").checkpoint("latest").download(tmp_path / "checkpoint")
    shutil.copytree(folder, service.sets / "from-elsewhere")
    imported = client.import_checkpoint("elsewhere", service.sets / "from-elsewhere")
    assert imported.name.startswith("jobs/elsewhere/checkpoints/")
    assert client.job("elsewhere").has_ended


def test_the_twin_for_asyncio_does_the_same(service: Service) -> None:
    async def use() -> None:
        async with lorsa.aio.Client(service.address) as client:
            sweep = await client.submit_sweep(SWEPT, {"top_k": [4, 8]}, policy={"priority": 1})
            assert (await sweep.wait(PATIENCE)).states == {"SUCCEEDED": 2}
            first, second = [job async for job in sweep.jobs()]
            checkpoint = await first.checkpoint("latest")
            fork = await checkpoint.fork({"tokens": 7680})
            assert (await fork.wait(PATIENCE)).state == "SUCCEEDED"
            assert len(await fork.checkpoints()) > 0
            await second.delete()
            assert sweep.id in [each.id async for each in client.sweeps()]
            late = await client.submit(ENDLESS, policy={"deadline": soon()})
            assert (await late.wait(PATIENCE)).state == "FAILED"
            await late.retry()
            await late.cancel()
            assert (await late.wait(PATIENCE)).state == "CANCELLED"

    asyncio.run(use())
