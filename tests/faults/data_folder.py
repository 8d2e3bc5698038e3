"""The files and processes of a service at rest, held against its catalog.

For a server that has drained: nobody writes any more. The layout is that of
server/model/data_layout.h.
"""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import re
import sqlite3
from dataclasses import dataclass

from history import FINAL, WITH_WORKER, state_name
from lorsa.v1.checkpoint_service_pb2 import Checkpoint
from service import Service, wait_for

LAST_MOMENT = 30.0  # seconds
# Relative to the data folder. What a job that goes on has staged is taken away by its next attempt.
EXPECTED = (
    r"lock",
    r"spare-room",
    r"generation",
    r"lost\+found/.*",  # what creations and publications left that were cut off
    r"catalog\.sqlite(-wal|-shm|\.version-\d+)?",
    r"jobs/[^/]+/job\.textproto",
    r"jobs/[^/]+/attempts/\d{4}/(bootstrap\.textproto|worker\.log|outcome\.textproto)",
    r"jobs/[^/]+/checkpoints/step-\d{9}/[^/]+",
    r"sets/[^/]+/.*",
)
STAGED = r"jobs/(?P<job>[^/]+)/attempts/(?P<attempt>\d{4})/staging/.*"


@dataclass
class StoredJob:
    """A job as the catalog has it."""

    state: str
    attempt: int
    deleted: bool  # and about to be removed
    checkpoints: list[Checkpoint]


def stored_jobs(data: pathlib.Path) -> dict[str, StoredJob]:
    """By id. AssertionError if the catalog is damaged."""
    path = data / "catalog.sqlite"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as catalog:
        assert catalog.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert catalog.execute("PRAGMA foreign_key_check").fetchall() == []
        jobs = {
            job_id: StoredJob(state_name(state), attempt, bool(deleted), [])
            for job_id, state, attempt, deleted in catalog.execute(
                "SELECT id, state, attempt, deleted FROM jobs"
            )
        }
        rows = catalog.execute(
            "SELECT id, step, files FROM checkpoints JOIN jobs ON number = job ORDER BY step"
        )
        for job_id, step, files in rows:
            checkpoint = Checkpoint.FromString(files)
            checkpoint.step = step
            jobs[job_id].checkpoints.append(checkpoint)
    return jobs


def inodes(data: pathlib.Path) -> dict[int, pathlib.Path]:
    """The files of jobs and sets, wherever in the data folder they are."""
    return {
        path.stat().st_ino: path
        for path in data.rglob("*")
        if path.is_file() and {"jobs", "sets"} & set(path.relative_to(data).parts)
    }


def problems_at_rest(service: Service) -> list[str]:
    """After a drain: processes that are left; files that are left, missing or not as listed."""
    # A worker that has told its outcome needs a moment to end.
    wait_for("workers to end", lambda: not service.worker_pids(), LAST_MOMENT)
    jobs = stored_jobs(service.data)
    problems = []
    for job_id, job in jobs.items():
        if job.state in WITH_WORKER:
            problems.append(f"{job_id} is {job.state} after the drain")
        if not job.deleted:
            problems += _checkpoint_problems(service.data / "jobs" / job_id / "checkpoints", job)
    return problems + _strangers(service.data, jobs)


def _checkpoint_problems(folder: pathlib.Path, job: StoredJob) -> list[str]:
    """The folder has the listed checkpoints, each with the listed files, and nothing else."""
    listed = {f"step-{each.step:09}": each for each in job.checkpoints}
    found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    problems = [f"{folder / name} is not listed" for name in found - listed.keys()]
    problems += [f"{folder / name} is listed and not there" for name in listed.keys() - found]
    for name in listed.keys() & found:
        digests = {path.name: _sha256(path) for path in (folder / name).iterdir()}
        if digests != {file.name: file.sha256 for file in listed[name].files}:
            problems.append(f"{folder / name} is not what is listed")
    return problems


def _sha256(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _strangers(data: pathlib.Path, jobs: dict[str, StoredJob]) -> list[str]:
    """Files that nobody will use or take away."""
    problems = []
    for path in sorted(data.rglob("*")):
        name = str(path.relative_to(data))
        if path.is_dir() or any(re.fullmatch(pattern, name) for pattern in EXPECTED):
            continue
        staged = re.fullmatch(STAGED, name)
        job = jobs.get(staged["job"]) if staged else None
        is_awaited = job is not None and job.state not in FINAL
        if not (staged and job and is_awaited and int(staged["attempt"]) == job.attempt):
            problems.append(f"{name} is left")
    return problems


def stray_workers(service: Service) -> list[str]:
    """Living workers other than the one of the current attempt of a job that has one; of a running
    server, which may be about to stop them.
    """
    jobs = stored_jobs(service.data)
    problems = []
    for pid in service.worker_pids():
        if (worked_on := attempt_of_worker(pid)) is not None:
            job_id, attempt = worked_on
            job = jobs[job_id]
            if job.attempt != attempt or job.state not in WITH_WORKER:
                problems.append(
                    f"worker {pid} of attempt {attempt} of {job_id}, which is {job.state} in "
                    f"attempt {job.attempt}"
                )
    return problems


def abandoned_workers(service: Service) -> list[str]:
    """Living workers of which a running server took its leave, as if they were lost."""
    jobs = stored_jobs(service.data)
    workers = {pid: attempt_of_worker(pid) for pid in service.worker_pids()}
    return [
        f"worker {pid} of attempt {of[1]} of {of[0]} lives and counts as lost"
        for pid, of in workers.items()
        if of is not None and (jobs[of[0]].state == "RECOVERING" or jobs[of[0]].attempt > of[1])
    ]


def drained_attempts(data: pathlib.Path) -> set[str]:
    """Of which the outcome says that a server was leaving."""
    outcomes = data.glob("jobs/*/attempts/*/outcome.textproto")
    return {
        str(path.parent.relative_to(data)) for path in outcomes if "DRAINED" in path.read_text()
    }


def attempt_of_worker(pid: int) -> tuple[str, int] | None:
    """Job id and attempt of a living worker."""
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return None
    option = "--bootstrap="
    files = [pathlib.Path(word.removeprefix(option)) for word in command if word.startswith(option)]
    if not files:
        return None  # it has ended, and its pid may be another's
    return files[0].parts[-4], int(files[0].parts[-2])
