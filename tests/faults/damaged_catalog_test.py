"""A catalog with a byte flipped or lost, in each region of its file and its log: the server refuses
it, or answers each question rightly or with an error, and never dies of it.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import damage
import pytest
from finished_job import SPEC, service_with_finished_job
from history import history_problems, read_history
from lorsa.client import Client
from lorsa.client.errors import NotFoundError, RpcError
from reading import list_checkpoints, list_jobs, query_metrics
from service import PATIENCE, Service, wait_for

JOBS = ("jobs/done", "jobs/paused", "jobs/cancelled")
Answers = dict[str, Any]


@dataclass
class Stopped:
    """A server that does not run, and what it left."""

    service: Service
    killed: pathlib.Path  # a copy of its data folder after SIGKILL: part of it is in the log
    closed: pathlib.Path  # after an end in order: all is in the file

    def restore(self, folder: pathlib.Path) -> None:
        self.service.kill()
        shutil.rmtree(self.service.data)
        shutil.copytree(folder, self.service.data)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    folder = tmp_path_factory.mktemp("service")
    with service_with_finished_job(folder) as service:
        with Client(service.listen) as client:
            for job_id in ("paused", "cancelled"):
                job = client.submit(SPEC | {"tokens": 100_000_000}, job_id)
                wait_for("the job to run", lambda job=job: job.refresh().state == "RUNNING")
                job.pause()
                wait_for("the job to pause", lambda job=job: job.refresh().state == "PAUSED")
            job.cancel()
        service.kill()
        stopped = Stopped(service, folder / "killed", folder / "closed")
        shutil.copytree(service.data, stopped.killed)
        service.start()
        assert service.terminate() == 0
        shutil.copytree(service.data, stopped.closed)
        yield stopped


def questions(client: Client) -> dict[str, Callable[[], Any]]:
    asked: dict[str, Callable[[], Any]] = {
        "jobs": lambda: list_jobs(client),
        "sets": lambda: list(client.sets.list()),
    }
    for name in JOBS:
        asked[f"history of {name}"] = lambda name=name: read_history(client, name)
        asked[f"metrics of {name}"] = lambda name=name: query_metrics(client, name)
        asked[f"checkpoints of {name}"] = lambda name=name: list_checkpoints(client, name)
    return asked


def answers(service: Service) -> Answers:
    """Of a running server; None where it answered with an error."""
    given: Answers = {}
    with Client(service.listen, timeout=PATIENCE) as client:
        for what, ask in questions(client).items():
            try:
                given[what] = ask()
            except NotFoundError:
                given[what] = "not found"  # as good as an answer, and a wrong one
            except RpcError:
                given[what] = None
            assert service.process is not None
            assert service.process.poll() is None, f"{what}: lorsad died"
    return given


def starts(service: Service) -> bool:
    """Whether it does; if not, it has said why and left in order."""
    said = len(service.log.read_text())
    service.launch()
    assert service.process is not None
    wait_for(
        "lorsad to listen or end",
        lambda: (service.data / "endpoint").exists() or service.process.poll() is not None,
    )
    if service.process.poll() is None:
        service.listen = service.address
        return True
    assert service.process.returncode == 1, "it was ended by a signal or an exception"
    assert "catalog" in service.log.read_text()[said:].splitlines()[-1]
    return False


def right_answers(stopped: Stopped) -> Answers:
    stopped.restore(stopped.killed)
    assert starts(stopped.service)
    right = answers(stopped.service)
    assert all(answer is not None for answer in right.values())
    return right


def test_a_damaged_catalog_gives_no_wrong_answer(stopped: Stopped) -> None:
    right = right_answers(stopped)
    wrong = []
    for each in damage.in_catalog(stopped.closed / "catalog.sqlite"):
        stopped.restore(stopped.closed)
        each.do(stopped.service.data)
        if starts(stopped.service):
            given = answers(stopped.service)
            wrong += [
                f"{each}: {what} was answered wrongly"
                for what, answer in given.items()
                if answer is not None and answer != right[what]
            ]
    assert wrong == []


def test_a_torn_log_leaves_an_older_state_that_is_whole(stopped: Stopped) -> None:
    """SQLite's log has checksums, and what does not match ends it: what was written after that is
    lost, as with any file that loses its end, and the rest holds together.
    """
    for each in damage.in_catalog_log(stopped.killed / "catalog.sqlite-wal"):
        stopped.restore(stopped.killed)
        each.do(stopped.service.data)
        if starts(stopped.service):
            with Client(stopped.service.listen) as client:
                for job in list_jobs(client):
                    assert not history_problems(*read_history(client, job.name)), each
