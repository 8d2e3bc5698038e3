"""A worker program that is missing, not executable, being replaced or broken is no job's fault."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator

import pytest
from finished_job import SPEC
from lorsa.client import Client
from service import BIN, Service, wait_for

WORKER = f'#!/bin/sh\nexec {BIN / "lorsa-worker"} "$@"\n'


@pytest.fixture
def worker(tmp_path: pathlib.Path) -> pathlib.Path:
    program = tmp_path / "worker"
    program.write_text(WORKER)
    program.chmod(0o755)
    return program


@pytest.fixture
def service(tmp_path: pathlib.Path, worker: pathlib.Path) -> Iterator[Service]:
    with Service(tmp_path, "--worker-binary", str(worker)) as service:
        service.add_set()
        yield service


def submit(service: Service, *job_ids: str) -> None:
    with Client(service.address) as client:
        for job_id in job_ids:
            client.submit(SPEC, job_id)


def wait_for_condition(service: Service) -> str:
    def message() -> str:
        conditions = service.json("info")[0].get("conditions", [])
        return next((c["message"] for c in conditions if c["reason"] == "LAUNCH_FAILED"), "")

    return str(wait_for("the condition LAUNCH_FAILED", message))


def expect_waiting(service: Service, part: str, *job_ids: str) -> None:
    """All of them wait, and say why."""
    for job_id in job_ids:
        wait_for(
            f"{job_id} to say why it waits",
            lambda name=job_id: part in service.job(name).get("waiting_message", ""),
        )
        assert service.state(job_id) == "QUEUED"


def expect_success(service: Service, *job_ids: str) -> None:
    for job_id in job_ids:
        job = service.wait_for_state(job_id, "SUCCEEDED", "FAILED")
        assert job["state"] == "JOB_STATE_SUCCEEDED", job
    wait_for("the condition to be over", lambda: not service.json("info")[0].get("conditions"))


@pytest.mark.parametrize("how", ["missing", "not executable"])
def test_jobs_wait_for_the_program(service: Service, worker: pathlib.Path, how: str) -> None:
    """The whole queue used to fail within seconds (STARTUP_CRASH)."""
    if how == "missing":
        worker.unlink()
    else:
        worker.chmod(0o644)
    submit(service, "a", "b")
    expect_waiting(service, str(worker), "a", "b")
    assert str(worker) in wait_for_condition(service)
    assert service.job("a").get("attempt", 0) == 0, "no attempt is spent on it"
    worker.write_text(WORKER)
    worker.chmod(0o755)
    expect_success(service, "a", "b")


def test_jobs_wait_while_the_program_is_replaced(service: Service, worker: pathlib.Path) -> None:
    """ETXTBSY, as long as somebody writes to it."""
    with worker.open("ab"):
        submit(service, "a")
        expect_waiting(service, "busy", "a")
    expect_success(service, "a")


def test_jobs_wait_while_a_library_is_missing(service: Service, worker: pathlib.Path) -> None:
    """Which the loader, or a shell in between, says with exit code 127."""
    worker.write_text("#!/bin/sh\necho no such library >&2\nexit 127\n")
    submit(service, "a", "b")
    expect_waiting(service, "status 127", "a", "b")
    assert service.job("a")["log_tail"] == "no such library"
    worker.write_text(WORKER)
    expect_success(service, "a", "b")


def test_lorsad_starts_without_a_worker_program(tmp_path: pathlib.Path) -> None:
    """What is stored can be read; jobs start once the program is there."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("lorsad", "lorsa-inspect"):
        shutil.copy2(BIN / name, programs / name)
    service = Service(tmp_path)
    service.program = programs / "lorsad"
    with service:
        service.add_set()
        submit(service, "a")
        expect_waiting(service, "lorsa-worker", "a")
        (programs / "lorsa-worker").symlink_to(BIN / "lorsa-worker")
        expect_success(service, "a")
