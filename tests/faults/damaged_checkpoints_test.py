"""Checkpoints with a byte flipped or lost, in each region of each of their files: a run goes on
from the newest whole one as if nothing had happened, and nobody downloads damage unnoticed.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Iterator

import damage
import pytest
from finished_job import SPEC, service_with_finished_job
from lorsa.client import Client, Job
from lorsa.client.errors import RpcError
from reading import list_checkpoints
from service import PATIENCE, Service, wait_for

LONG = SPEC | {"tokens": 64_000, "checkpoint_interval_tokens": 640, "keep_checkpoints": 1000}


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    """With the finished job `done`, which has a checkpoint every 5 of its 500 steps."""
    with service_with_finished_job(tmp_path, **LONG) as service:
        yield service


def folder_of(service: Service, checkpoint: str) -> pathlib.Path:
    return service.data / checkpoint


def final_weights(client: Client, job: Job) -> str:
    files = list_checkpoints(client, job.name)[-1].files
    return next(file.sha256 for file in files if file.name == "lorsa.safetensors")


def test_a_run_goes_on_from_the_newest_whole_checkpoint(service: Service) -> None:
    with Client(service.listen) as client:
        job = client.submit(LONG, "job")
        damages = damage.in_checkpoint(
            folder_of(service, list_checkpoints(client, "jobs/done")[0].name)
        )
        wait_for(
            "enough checkpoints",
            lambda: len(list_checkpoints(client, job.name)) > len(damages) + 2,
        )
        job.pause()
        wait_for("the job to pause", lambda: job.refresh().state == "PAUSED")
        newest = list_checkpoints(client, job.name)[-len(damages) :]
        for checkpoint, each in zip(newest, damages, strict=True):
            each.do(folder_of(service, checkpoint.name))
        job.resume()
        assert job.wait(3 * PATIENCE).state == "SUCCEEDED"
        assert final_weights(client, job) == final_weights(client, client.job("done"))
        for checkpoint in list_checkpoints(client, job.name):
            for file in checkpoint.files:
                contents = (folder_of(service, checkpoint.name) / file.name).read_bytes()
                assert hashlib.sha256(contents).hexdigest() == file.sha256, checkpoint.name


@pytest.mark.long
def test_damage_is_not_downloaded_unnoticed(service: Service, tmp_path: pathlib.Path) -> None:
    with Client(service.listen) as client:
        checkpoints = client.job("done").checkpoints()
        damages = damage.in_checkpoint(folder_of(service, checkpoints[0].name))
        for i, each in enumerate(damages):
            each.do(folder_of(service, checkpoints[i].name))
            with pytest.raises(RpcError) as error:
                checkpoints[i].download(tmp_path / f"damaged-{i}")
            assert each.file in str(error.value), f"{each}: {error.value}"
            assert not (tmp_path / f"damaged-{i}").exists()
        checkpoints[len(damages)].download(tmp_path / "whole")
        assert service.terminate() == 0


def test_files_beside_checkpoints_that_are_damaged_fail_with_their_names(
    service: Service,
) -> None:
    """What a dead worker left to say is not a word: the job recovers. What it left out after a NaN
    is not known: the job fails rather than train something else.
    """
    with Client(service.listen) as client:
        job = client.submit(LONG, "job")
        wait_for("a checkpoint", lambda: list_checkpoints(client, job.name))
        job.pause()
        wait_for("the job to pause", lambda: job.refresh().state == "PAUSED")
        rollbacks = service.data / "jobs/job/rollbacks.json"
        rollbacks.write_text('{"format": "lorsa-rollbacks", "format_version": 1, "rollb')
        job.resume()
        job.wait(PATIENCE)
        assert job.state == "FAILED"
        assert "rollbacks.json" in job.proto.message
        assert client.job("done").state == "SUCCEEDED"
