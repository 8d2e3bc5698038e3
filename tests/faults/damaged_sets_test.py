"""Activation sets with a byte flipped or lost, in each region of each of their files: verification
finds it, and no run trains on it unnoticed.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator

import damage
import pytest
from finished_job import SPEC, finish_job
from lorsa.client import Client
from lorsa.client.errors import RpcError
from lorsa.v1.activation_service_pb2 import VerifyActivationSetRequest
from reading import list_checkpoints
from service import Service, wait_for

ENDED = ("SUCCEEDED", "FAILED", "PAUSED")


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    """With activationSets/set and the job `done` on it."""
    with Service(tmp_path, "--max-running-jobs", "2") as service:
        service.add_set(sequences=160)
        finish_job(service)
        yield service


def verification_problems(client: Client, name: str) -> str:
    """What a deep verification says is wrong; empty if nothing."""
    request = VerifyActivationSetRequest(name=f"activationSets/{name}")
    try:
        for answer in client.stream(client.stubs.activation.VerifyActivationSet, request):
            last = answer
    except RpcError as error:
        return str(error)
    return "" if last.report.ok else " ".join(last.report.problems)


def weights(client: Client, name: str) -> str:
    files = list_checkpoints(client, name)[-1].files
    return next(file.sha256 for file in files if file.name == "lorsa.safetensors")


@pytest.mark.long
def test_damage_is_found_and_not_trained_on(service: Service) -> None:
    with Client(service.listen) as client:
        damages = damage.in_set(service.sets / "set")
        for i, each in enumerate(damages):
            copy = service.sets / f"set-{i}"
            shutil.copytree(service.sets / "set", copy)
            client.sets.register(f"set-{i}", copy)
            each.do(copy)
        right = weights(client, "jobs/done")
        jobs = [
            client.submit(SPEC | {"activation_set": f"set-{i}"}, f"job-{i}")
            for i in range(len(damages))
        ]
        for i, (job, each) in enumerate(zip(jobs, damages, strict=True)):
            wait_for(f"an end, {each}", lambda job=job: job.refresh().state in ENDED)
            if job.state == "SUCCEEDED":  # not a byte of what it read
                assert weights(client, job.name) == right, f"{each}: it was trained on"
            else:  # a checksum that differs may be damaged itself: then its shard is named
                assert f"set-{i}/" in job.proto.message, f"{each}: {job.proto.message}"
        for i, each in enumerate(damages):
            problems = verification_problems(client, f"set-{i}")
            assert each.file in problems, f"{each}: verification says {problems or 'intact'}"
        assert verification_problems(client, "set") == ""
