"""The oracle is worth something: what is taken away from a server behind its back, it misses."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import sqlite3
from collections.abc import Iterator

import data_folder
import pytest
from actions import spec_of
from campaign import Campaign
from lorsa.client import Client
from lorsa.v1.job_service_pb2 import CreateJobRequest
from reading import read_logs
from service import PATIENCE, Service

LOSSES = {
    "a job": "DELETE FROM jobs",
    "an event": "DELETE FROM events WHERE revision = 3",
    "an event's text": "UPDATE events SET message = 'another' WHERE revision = 3",
    "the newest event": "DELETE FROM events WHERE revision = (SELECT revision FROM jobs)",
    "a state": "UPDATE jobs SET state = 1",
    "an illegal change": "UPDATE events SET to_state = 8 WHERE revision = 2",
    "a metric": "DELETE FROM metrics WHERE kind = 1 AND step = 7",
    "the last metrics": "DELETE FROM metrics WHERE kind = 1 AND step > 140",
    "a metric's attempt": "UPDATE metrics SET attempt = 0 WHERE step = 7",
}
LOSS_OF_A_CHECKPOINT = "DELETE FROM checkpoints WHERE step = 20"


class Known:
    """A service that was killed, and the oracle that has seen all of it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.campaign = Campaign(folder, seed=0)
        self.service: Service = self.campaign.service
        request = CreateJobRequest(job_id="everything-1", spec=spec_of("everything"))
        facts = self.campaign.oracle.intend(request)
        with Client(self.service.listen) as client:
            job = client.call(client.stubs.job.CreateJob, request)
            assert self.campaign.oracle.saw_job(job) == []
            assert client.job("everything-1").wait(PATIENCE).state == "SUCCEEDED"
            assert self.problems() == []
            logs = read_logs(client, facts.name)
            assert self.campaign.oracle.saw_logs(facts.name, logs) == []
            assert self.campaign.oracle.saw_logs(facts.name, {1: logs[1][1:]}) != []
        self.service.terminate()
        self._seen = self.campaign.oracle.copy()
        self.whole = folder / "whole"
        shutil.copytree(self.service.data, self.whole)

    def problems(self) -> list[str]:
        with Client(self.service.listen) as client:
            return self.campaign.oracle.check(client, everything=True)

    def restore(self) -> None:
        self.service.kill()
        shutil.rmtree(self.service.data)
        shutil.copytree(self.whole, self.service.data)
        self.campaign.oracle = self._seen.copy()

    def change_catalog(self, statement: str) -> None:
        path = self.service.data / "catalog.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as catalog:
            changes = catalog.execute(statement).rowcount
            catalog.commit()
        assert changes > 0


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    known = Known(tmp_path_factory.mktemp("known"))
    yield known
    known.campaign.close()


def test_nothing_is_missed_where_nothing_is_lost(known: Known) -> None:
    known.restore()
    known.service.start()
    assert known.problems() == []
    known.service.terminate()
    assert data_folder.problems_at_rest(known.service) == []


@pytest.mark.parametrize("loss", LOSSES)
def test_what_the_catalog_lost_is_missed(known: Known, loss: str) -> None:
    known.restore()
    known.change_catalog(LOSSES[loss])
    known.service.start()
    assert known.problems() != []


def test_a_checkpoint_that_is_gone_is_missed(known: Known) -> None:
    known.restore()
    known.change_catalog(LOSS_OF_A_CHECKPOINT)
    shutil.rmtree(known.service.data / "jobs/everything-1/checkpoints/step-000000020")
    known.service.start()
    assert known.problems() != []


def test_a_checkpoint_that_the_catalog_lost_is_listed_again(known: Known) -> None:
    known.restore()
    known.change_catalog(LOSS_OF_A_CHECKPOINT)
    known.service.start()
    assert known.problems() == []


@pytest.mark.parametrize(
    "stranger",
    [
        "catalog.sqlite.tmp",
        "jobs/everything-1/attempts/0001/outcome.textproto.tmp",
        "jobs/everything-1/attempts/0001/staging/step-000000005/config.json",
        "jobs/everything-1/checkpoints/step-000000999/config.json",
        "jobs/everything-1/trash/step-000000005/config.json",
        "jobs/nobody/attempts/0001/staging/config.json",
    ],
)
def test_a_file_that_nobody_needs_is_noticed(known: Known, stranger: str) -> None:
    known.restore()
    path = known.service.data / stranger
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    assert data_folder.problems_at_rest(known.service) != []


def test_a_checkpoint_that_differs_from_its_listing_is_noticed(known: Known) -> None:
    known.restore()
    checkpoints = known.service.data / "jobs/everything-1/checkpoints"
    (checkpoints / "step-000000005/config.json").write_text("{}")
    assert data_folder.problems_at_rest(known.service) != []
    shutil.rmtree(checkpoints / "step-000000005")
    assert data_folder.problems_at_rest(known.service) != []
