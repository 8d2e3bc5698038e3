"""What the campaign sees of a real worker, so that it does kill some."""

from __future__ import annotations

import pathlib

import data_folder
from finished_job import SPEC
from lorsa.client import Client
from service import Service, wait_for


def test_a_worker_is_known_by_its_job_and_attempt(tmp_path: pathlib.Path) -> None:
    with Service(tmp_path) as service:
        service.add_set()
        with Client(service.address) as client:
            client.submit(SPEC | {"tokens": 100_000_000}, "runs")
        (worker,) = wait_for("a worker", service.worker_pids)
        assert data_folder.attempt_of_worker(worker) == ("runs", 1)
        assert data_folder.stray_workers(service) == []
