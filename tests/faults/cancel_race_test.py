"""A cancellation that meets the end of the run: one of them wins, and it stays so."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from data_folder import attempt_of_worker
from finished_job import SPEC
from history import FINAL, history_problems, read_history, state_name
from lorsa.client import Client, Job
from lorsa.client.errors import FailedPreconditionError
from lorsa.v1.worker_service_pb2 import WorkerOutcome
from scripted_worker import ScriptedWorker, idle_worker
from service import PATIENCE, Service, wait_for

RACES = 20


def cancel_after(job: Job, seconds: float) -> bool:
    """Whether the cancellation was accepted."""
    time.sleep(seconds)
    try:
        return job.cancel().state in ("CANCELLING", "CANCELLED")
    except FailedPreconditionError:
        return False


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    with Service(tmp_path) as service:
        service.add_set()
        yield service


@pytest.mark.long
def test_a_cancellation_races_the_end_of_the_run(service: Service) -> None:
    """The moment is homed in on, since a run takes as long as the machine lets it."""
    with Client(service.listen) as client:
        jobs = []
        too_early, too_late = 0.2, 0.0  # seconds from the beginning of the run; 0 = not known yet
        for race in range(RACES):
            job = client.submit(SPEC, f"race-{race}")
            delay = (too_early + too_late) / 2 if too_late else 2 * too_early
            wait_for("it to run", lambda job=job: job.refresh().state not in ("QUEUED", "STARTING"))
            accepted = cancel_after(job, delay)
            check_one_end(client, job, accepted)
            wait_for("the worker to leave", lambda: not service.worker_pids())
            jobs.append(job)
            if job.state == "CANCELLED":
                too_early, too_late = delay, max(too_late, 1.1 * delay) if too_late else 0.0
            else:
                too_early, too_late = min(too_early, 0.9 * delay), delay
        assert {job.state for job in jobs} == {"CANCELLED", "SUCCEEDED"}, "no race was run"
        # Whatever they ended as, they stay that.
        states = [job.state for job in jobs]
        service.kill()
        service.start()
        assert [job.refresh().state for job in jobs] == states


def check_one_end(client: Client, job: Job, accepted: bool) -> None:
    wait_for("an end", lambda: job.refresh().state in FINAL)
    ended, events = read_history(client, job.name)
    assert not history_problems(ended, events)
    finals = [event for event in events if state_name(event.to_state) in FINAL]
    assert len(finals) == 1
    assert job.state in ("CANCELLED", "SUCCEEDED")
    assert accepted or job.state == "SUCCEEDED", "it was cancelled after a refusal"


def test_a_cancellation_races_a_scripted_worker(
    tmp_path: pathlib.Path, pytestconfig: pytest.Config
) -> None:
    """Five races for each cycle of the campaign, several at a time: 1,000 in a whole run. In fewer
    than 20, one side might win all.
    """
    races, seed = max(20, 5 * pytestconfig.getoption("--cycles")), pytestconfig.getoption("--seed")
    flags = ("--worker-binary", str(idle_worker(tmp_path)), "--max-running-jobs", "4")
    with Service(tmp_path, *flags) as service, Client(service.listen) as client:
        service.add_set()
        with ThreadPoolExecutor(4) as pool:
            run = [
                pool.submit(race_a_scripted_worker, service, client, race, seed)
                for race in range(races)
            ]
        ends = [race.result() for race in run]
        assert {"CANCELLED", "SUCCEEDED"} == set(ends), "no race was run"
        states = {job.id: job.state for job in client.jobs()}
        assert [states[f"race-{race}"] for race in range(races)] == ends


def race_a_scripted_worker(service: Service, client: Client, race: int, seed: int) -> str:
    """What it ended as."""
    chance = random.Random(f"{seed}/{race}")
    job = client.submit(SPEC, f"race-{race}")
    wait_for("the attempt", lambda: job.refresh().state == "STARTING")  # its token counts now
    with ScriptedWorker(service, job.id) as worker, ThreadPoolExecutor(1) as pool:
        worker.say_hello()
        accepted = pool.submit(cancel_after, client.job(job.id), chance.uniform(0, 0.02))
        outcome = worker.finish_after(chance.uniform(0, 0.05))
        kill_idle_worker(service, job.id)
        check_one_end(client, job, accepted.result())
        assert job.state == WorkerOutcome.Kind.Name(outcome).removeprefix("KIND_")
    return job.state


def kill_idle_worker(service: Service, job_id: str) -> None:
    for pid in service.worker_pids():
        if attempt_of_worker(pid) == (job_id, 1):
            os.kill(pid, signal.SIGKILL)


def test_cancellations_of_one_job_at_once_are_one(service: Service) -> None:
    with Client(service.listen) as client:
        job = client.submit(SPEC | {"tokens": 100_000_000}, "job")
        wait_for("the job to run", lambda: job.refresh().state == "RUNNING")
        threads = [threading.Thread(target=client.job("job").cancel) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert job.wait(PATIENCE).state == "CANCELLED"
        events = read_history(client, job.name)[1]
        assert [state_name(event.to_state) for event in events].count("CANCELLED") == 1
