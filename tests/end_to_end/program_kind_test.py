"""Jobs of a kind that a program in Python runs (docs/workers.md)."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import signal
import sys
from collections.abc import Iterator

import pytest
from lorsa.client import Client
from lorsa.client.blocking import Job
from lorsa.client.errors import FailedPreconditionError, InvalidArgumentError
from lorsa.client.records import progress_values
from lorsa.v1.job_pb2 import JobEvent
from pages import code_of, run_shell
from service import PATIENCE, ROOT, Service, wait_for

WORKER = ROOT / "tests/workers/digest_worker.py"
TEXT = "what is hashed"
SLOW = {"text": TEXT, "total": 400, "every": 20, "seconds_per_step": 0.02}


def python(program: pathlib.Path) -> tuple[str, ...]:
    """Runs a program with the package of this working tree."""
    return "env", f"PYTHONPATH={ROOT / 'client/python'}", sys.executable, str(program)


def configuration(folder: pathlib.Path, *command: str, kind: str = "digest") -> pathlib.Path:
    """A file for lorsad's --config that has one more kind; default: that of WORKER."""
    words = command or python(WORKER)
    lines = "".join(f"  command: {json.dumps(word)}\n" for word in words)
    path = folder / "lorsad.textproto"
    path.write_text(f'job_kinds {{\n  name: "{kind}"\n{lines}}}\n')
    return path


def chain(total: int) -> str:
    digest = TEXT
    for _ in range(total):
        digest = hashlib.sha256(digest.encode()).hexdigest()
    return digest


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    with Service(tmp_path, "--config", str(configuration(tmp_path))) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.listen) as client:
        yield client


def result_of(job: Job, folder: pathlib.Path) -> list[str]:
    """What the last checkpoint holds, once each file of it was verified."""
    job.checkpoint("latest").download(folder)
    return (folder / "digest.txt").read_text().split()


def step_of(job: Job) -> int:
    return int(job.refresh().proto.progress.step)


def test_a_job_runs_and_its_result_is_downloaded(client: Client, tmp_path: pathlib.Path) -> None:
    job = client.run("digest", {"text": TEXT, "total": 30, "every": 10}, "first")
    assert (job.kind, job.proto.cpu_slots, len(job.proto.uid)) == ("digest", 1, 32)
    assert job.wait(PATIENCE).state == "SUCCEEDED"
    assert result_of(job, tmp_path / "result") == ["30", chain(30)]
    assert [each.step for each in job.checkpoints()] == [30], "one is kept by default"
    assert list(job.metrics("training")["step"]) == list(range(1, 31))


def test_progress_is_watched_by_name(client: Client) -> None:
    job = client.run("digest", SLOW, "watched")
    wait_for("progress", lambda: step_of(job) > 0)
    progress = job.refresh().proto.progress
    assert progress.phase == "hashing" and progress.total_steps == SLOW["total"]
    assert set(progress_values(progress)) == {"first_byte"}
    assert progress.values[0].unit == "of 256"
    assert 0 < progress.remaining.ToTimedelta().total_seconds() < 8
    job.cancel()
    assert job.wait(PATIENCE).state == "CANCELLED"


def test_a_pause_keeps_every_step_and_a_resumed_job_ends_the_same(
    client: Client, tmp_path: pathlib.Path
) -> None:
    job = client.run("digest", SLOW | {"every": 1000}, "paused")
    wait_for("steps", lambda: step_of(job) > 5)
    job.pause()
    wait_for("the pause", lambda: job.refresh().state == "PAUSED")
    (checkpoint,) = job.checkpoints()
    assert checkpoint.step > 5
    job.resume()
    assert job.wait(PATIENCE).state == "SUCCEEDED"
    assert result_of(job, tmp_path / "result") == ["400", chain(400)]


def test_killed_on_both_sides_a_job_ends_the_same(
    service: Service, client: Client, tmp_path: pathlib.Path
) -> None:
    job = client.run("digest", SLOW, "killed")
    wait_for("a checkpoint", lambda: job.refresh().proto.latest_checkpoint)
    (worker,) = service.worker_pids()
    os.kill(worker, signal.SIGKILL)
    wait_for("the next attempt", lambda: job.refresh().proto.attempt == 2)
    wait_for("the next worker to go on", lambda: step_of(job) > 20)
    service.kill()
    service.start()
    assert job.wait(PATIENCE).state == "SUCCEEDED"
    assert job.proto.attempt == 2, "the worker went on without its server"
    assert result_of(job, tmp_path / "result") == ["400", chain(400)]


def test_a_damaged_checkpoint_is_reported_and_passed_over(
    service: Service, client: Client, tmp_path: pathlib.Path
) -> None:
    job = client.run("digest", SLOW, "damaged", keep_checkpoints=3)
    wait_for("two checkpoints", lambda: len(list(job.checkpoints())) > 1)
    job.pause()
    wait_for("the pause", lambda: job.refresh().state == "PAUSED")
    newest = job.proto.latest_checkpoint
    file = service.data / newest / "digest.txt"
    file.write_text("1" + file.read_text()[1:])
    job.resume()
    assert job.wait(PATIENCE).state == "SUCCEEDED"
    assert result_of(job, tmp_path / "result") == ["400", chain(400)]
    events = [each.message for each in job.watch() if isinstance(each, JobEvent)]
    assert any(f"checkpoint {newest.split('/')[-1]} is damaged" in each for each in events)


def test_a_drained_job_goes_on_with_the_next_server(
    service: Service, client: Client, tmp_path: pathlib.Path
) -> None:
    job = client.run("digest", SLOW, "drained")
    wait_for("steps", lambda: step_of(job) > 5)
    assert service.terminate() == 0
    service.start()
    assert job.wait(PATIENCE).state == "SUCCEEDED"
    assert result_of(job, tmp_path / "result") == ["400", chain(400)]


def test_a_worker_that_fails_says_why(client: Client) -> None:
    job = client.run("digest", {"text": TEXT}, "wrong").wait(PATIENCE)
    assert (job.state, job.proto.reason) == ("FAILED", "INVALID_SPEC")
    assert job.proto.message == "parameter 'total' is missing"
    job = client.run("digest", {"text": TEXT, "total": "many"}, "raises").wait(PATIENCE)
    assert (job.state, job.proto.reason) == ("FAILED", "WORKER_ERROR")
    assert "ValueError" in job.proto.message and "Traceback" in job.proto.log_tail


def test_what_cannot_run_is_refused_and_says_what_to_do(client: Client) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no jobs of kind 'other', but digest, train"):
        client.run("other", {}, "other")
    with pytest.raises(InvalidArgumentError, match=r"is 'training'; set spec\.training"):
        client.run("training", {}, "training")
    with pytest.raises(InvalidArgumentError, match=r"spec\.program\.threads: is 2000"):
        client.run("digest", {}, "large", threads=2000)
    done = client.run("digest", {"text": TEXT, "total": 1}, "done").wait(PATIENCE)
    with pytest.raises(FailedPreconditionError, match="only training jobs can be forked"):
        done.checkpoint("latest").fork({"top_k": 4}, "fork")


def test_a_program_that_is_missing_holds_up_its_own_jobs_only(tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "no_such_program"
    config = str(configuration(tmp_path, str(missing)))
    with Service(tmp_path, "--config", config) as service, Client(service.listen) as client:
        service.add_set()
        waits = client.run("digest", {"text": TEXT, "total": 1}, "waits")
        spec = "activation_set: 'set' n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: 6400 threads: 1"
        service.cli("job", "submit", "--id", "trains", spec)
        assert client.job("trains").wait(PATIENCE).state == "SUCCEEDED"
        assert waits.refresh().proto.waiting_for == "PROGRAM_MISSING"
        assert str(missing) in waits.proto.waiting_message
        service.terminate()
        service.flags = ()
        service.start()
        assert waits.refresh().proto.waiting_for == "JOB_KIND_MISSING"
        assert "job_kinds" in waits.proto.waiting_message
        configuration(tmp_path)
        service.terminate()
        service.flags = ("--config", config)
        service.start()
        assert waits.wait(PATIENCE).state == "SUCCEEDED"


def test_the_command_line_runs_and_shows_such_jobs(service: Service) -> None:
    parameters = json.dumps({"text": TEXT, "total": 3})
    service.cli("job", "run", "digest", "--id", "cli", "--watch", parameters)
    shown = service.cli("job", "show", "cli").stdout
    assert "kind" in shown and "digest" in shown and "SUCCEEDED" in shown
    assert "digest" in service.cli("job", "list").stdout


def test_the_example_of_the_page_runs(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "count_worker.py"
    (code,) = code_of("workers.md", "python")
    program.write_text(code)
    config = configuration(tmp_path, *python(program), kind="count")
    with Service(tmp_path, "--config", str(config)) as service:
        (commands,) = code_of("workers.md", "bash")
        run_shell(commands, tmp_path, service.address)
        assert json.loads((tmp_path / "first/count.json").read_text()) == 5000
