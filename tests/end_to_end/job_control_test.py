"""Fork, retry, delete, expiry, deadlines, the queue's limits and sweeps, with the real binaries."""

from __future__ import annotations

import json
import os
import pathlib
import signal
from collections.abc import Iterator

import pytest
from service import BIN, Service, wait_for
from synthetic_set import write_set

# 400 steps; a few seconds.
SPEC = (
    "activation_set: 'set' n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: 51200 threads: 1 "
    "sequences_per_step: 4 evaluation_interval_tokens: 12800 checkpoint_interval_tokens: 6400 "
    "keep_checkpoints: 100"
)
# Runs until somebody ends it.
ENDLESS = SPEC.replace("tokens: 51200", "tokens: 100000000")


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    with Service(tmp_path, "--cpu-slots", "2", "--max-running-jobs", "3") as service:
        service.add_set()
        yield service


def submit(service: Service, job_id: str, spec: str = SPEC, *options: str) -> None:
    service.cli("job", "submit", "--id", job_id, spec, *options)


def steps(service: Service, job_id: str) -> list[int]:
    points = service.json("job", "metrics", job_id, "--kind", "training", "--limit", "100000")
    return [int(p["step"]) for p in points]


def exists(service: Service, job_id: str) -> bool:
    return service.cli("job", "show", job_id, ok=False).returncode == 0


def test_a_fork_goes_on_from_the_checkpoint_also_when_its_source_is_deleted(
    service: Service,
) -> None:
    submit(service, "source")
    service.wait_for_state("source", "SUCCEEDED", "FAILED")
    submit(service, "in-the-way", ENDLESS, "--priority", "1")
    submit(service, "in-the-way-too", ENDLESS, "--priority", "1")
    wait_for("both to run", lambda: service.state("in-the-way-too") == "RUNNING")
    service.cli("job", "fork", "source@200", "tokens: 76800 learning_rate: 1e-3", "--id", "fork")
    service.cli("job", "delete", "source")
    wait_for("its files to go", lambda: not (service.data / "jobs/source").exists())
    assert service.state("fork") == "QUEUED"
    for job_id in ("in-the-way", "in-the-way-too"):
        service.cli("job", "cancel", job_id)
    job = service.wait_for_state("fork", "SUCCEEDED", "FAILED")
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    assert job["forked_from"] == "jobs/source/checkpoints/step-000000200"
    assert steps(service, "fork") == list(range(201, 601))
    refused = service.cli("job", "fork", "fork", "n_ov_heads: 128", "--id", "other", ok=False)
    assert "changes.n_ov_heads: is fixed by the checkpoint" in refused.stderr


def test_a_forked_job_without_changes_ends_with_the_same_bits(service: Service) -> None:
    submit(service, "source")
    service.wait_for_state("source", "SUCCEEDED", "FAILED")
    service.cli("job", "fork", "source@150", "--id", "fork")
    service.wait_for_state("fork", "SUCCEEDED", "FAILED")

    def digests(job_id: str) -> dict[str, str]:
        newest = max(service.checkpoints(job_id), key=lambda c: int(c["step"]))
        return {f["name"]: f["sha256"] for f in newest["files"] if f["name"] != "manifest.json"}

    assert digests("fork") == digests("source")


def test_a_deleted_job_is_gone_and_its_id_is_free(service: Service) -> None:
    submit(service, "job")
    refused = service.cli("job", "delete", "job", ok=False)
    assert refused.returncode == 1 and "cancel it before" in refused.stderr
    service.wait_for_state("job", "SUCCEEDED", "FAILED")
    service.cli("checkpoint", "pin", "job@best")
    assert "is pinned" in service.cli("job", "delete", "job", ok=False).stderr
    service.cli("job", "delete", "job", "--force")
    assert not exists(service, "job")
    wait_for("its files to go", lambda: not (service.data / "jobs/job").exists())
    wait_for(
        "the id to be free",
        lambda: service.cli("job", "submit", "--id", "job", SPEC, ok=False).returncode == 0,
    )
    assert service.wait_for_state("job", "SUCCEEDED", "FAILED")["attempt"] == 1


def test_a_deletion_that_a_crash_cut_off_is_finished_at_the_next_start(service: Service) -> None:
    for number in range(5):
        submit(service, f"job-{number}")
    for number in range(5):
        service.wait_for_state(f"job-{number}", "SUCCEEDED", "FAILED")
    for number in range(5):
        service.cli("job", "delete", f"job-{number}")
    service.kill()
    service.start()
    assert service.json("job", "list") == []
    wait_for("all files to go", lambda: not list((service.data / "jobs").iterdir()))


def test_a_job_expires_and_one_that_misses_its_deadline_fails(service: Service) -> None:
    submit(service, "short", SPEC, "--ttl", "1s")
    submit(service, "long", ENDLESS, "--deadline", "4s")
    service.wait_for_state("long", "FAILED")
    job = service.job("long")
    assert job["reason"] == "DEADLINE", job
    wait_for("the worker to leave", lambda: not service.worker_pids())
    wait_for("the job to expire", lambda: not exists(service, "short"))


def test_a_job_is_not_retried_on_other_data_under_the_id_of_its_set(service: Service) -> None:
    submit(service, "source")
    service.wait_for_state("source", "SUCCEEDED", "FAILED")
    submit(service, "job", ENDLESS, "--deadline", "4s")
    job = service.wait_for_state("job", "FAILED")
    sha256 = service.json("set", "show", "set")[0]["manifest_sha256"]
    assert job["resolved_spec"]["training"]["activation_set_sha256"] == sha256
    wait_for("the worker to leave", lambda: not service.worker_pids())
    service.cli("set", "delete", "set")
    gone = service.cli("job", "retry", "job", ok=False)
    assert gone.returncode == 1 and "activation set set, which jobs/" in gone.stderr
    write_set(service.sets / "other", seed=1)
    service.cli("set", "register", "set", service.sets / "other")
    for command in (("job", "retry", "job"), ("job", "fork", "source@latest", "--id", "fork")):
        refused = service.cli(*command, ok=False)
        assert refused.returncode == 1 and "has other contents" in refused.stderr, refused.stderr
    assert service.state("job") == "FAILED"
    service.cli("set", "delete", "set")
    service.cli("set", "register", "set", service.sets / "set")
    service.cli("job", "retry", "job")
    service.wait_for_state("job", "RUNNING")


def test_the_queue_never_takes_more_than_the_machine_has(service: Service) -> None:
    submit(service, "first", ENDLESS)
    submit(service, "second", ENDLESS.replace("threads: 1", "threads: 2"))
    submit(service, "third", ENDLESS)
    submit(service, "urgent", ENDLESS, "--priority", "10")
    wait_for("the urgent one", lambda: service.state("urgent") == "RUNNING")
    waits = {j: service.job(j)["waiting_for"] for j in ("second", "third")}
    assert waits == {"second": "CPU_SLOTS", "third": "EARLIER_JOBS"}
    assert "CPU_SLOTS" in service.cli("job", "list").stdout
    assert len(service.worker_pids()) == 2
    refused = service.cli(
        "job", "submit", "--id", "large", SPEC.replace("threads: 1", "threads: 3"), ok=False
    )
    assert "3 CPU slots" in refused.stderr
    for job_id in ("first", "urgent"):
        service.cli("job", "cancel", job_id)
    wait_for("the large one", lambda: service.state("second") == "RUNNING")
    assert service.state("third") == "QUEUED"


def test_a_worker_that_stops_making_steps_is_replaced(service: Service) -> None:
    submit(service, "job", ENDLESS, "--step-timeout", "10s")
    wait_for("a step", lambda: len(steps(service, "job")) > 0)
    (worker,) = service.worker_pids()
    attempt = service.job("job")["attempt"]
    os.kill(worker, signal.SIGSTOP)
    wait_for("the next attempt", lambda: service.job("job")["attempt"] > attempt)
    wait_for("it to run", lambda: service.state("job") == "RUNNING")
    assert worker not in service.worker_pids()


def test_workers_that_cannot_start_are_given_up_and_the_job_is_retried(
    tmp_path: pathlib.Path,
) -> None:
    worker = tmp_path / "worker"
    worker.write_text("#!/bin/sh\necho no such library >&2\nexit 3\n")
    worker.chmod(0o755)
    with Service(tmp_path, "--worker-binary", str(worker)) as service:
        service.add_set()
        submit(service, "job")
        job = service.wait_for_state("job", "FAILED")
        assert job["reason"] == "STARTUP_CRASH"
        assert "exited with status 3" in job["message"]
        assert job["log_tail"] == "no such library"
        assert "no such library" in service.cli("job", "show", "job").stdout
        worker.write_text(f'#!/bin/sh\nexec {BIN / "lorsa-worker"} "$@"\n')
        service.cli("job", "retry", "job")
        retried = service.wait_for_state("job", "SUCCEEDED", "FAILED")
        assert retried["state"] == "JOB_STATE_SUCCEEDED", retried
        assert retried["attempt"] == job["attempt"] + 1


def test_every_line_of_a_worker_names_job_and_attempt(service: Service) -> None:
    submit(service, "job")
    service.wait_for_state("job", "SUCCEEDED", "FAILED")
    lines = service.cli("job", "logs", "job").stdout.splitlines()[1:]
    assert lines
    assert all("job=jobs/job attempt=1 " in line for line in lines), lines


def test_a_sweep_runs_is_compared_and_cancelled(service: Service) -> None:
    spec = SPEC.replace("top_k: 8 ", "")
    create = ("sweep", "create", "--id", "grid", spec, "--over", "top_k=2,8")
    service.cli(*create, "--over", "learning_rate=1e-4,3e-3")
    watched = service.cli("sweep", "watch", "grid")
    assert "grid-003 is SUCCEEDED" in watched.stdout
    sweep, *jobs = service.json("sweep", "show", "grid")
    assert sweep["jobs_by_state"] == {"SUCCEEDED": 4}
    fvu = [job["best_fvu"] for job in jobs]
    assert fvu == sorted(fvu)
    assert sweep["best_job"] == jobs[0]["name"] and sweep["best_fvu"] == fvu[0]
    assert jobs[0]["spec"]["training"]["top_k"] == 8
    service.cli("sweep", "create", "--id", "endless", ENDLESS, "--over", "seed=1,2,3,4")
    wait_for("two to run", lambda: len(service.worker_pids()) == 2)
    service.cli("sweep", "cancel", "endless")
    ended = service.cli("sweep", "watch", "endless", ok=False)
    assert ended.returncode == 4
    (endless,) = [s for s in service.json("sweep", "list") if s["name"] == "sweeps/endless"]
    assert endless["jobs_by_state"] == {"CANCELLED": 4}


def test_a_long_run_is_shown_thinned(service: Service) -> None:
    submit(service, "job")
    service.wait_for_state("job", "SUCCEEDED", "FAILED")
    thinned = service.cli("--json", "job", "metrics", "job", "--kind", "training", "--points", "5")
    shown = [int(json.loads(line)["step"]) for line in thinned.stdout.splitlines()]
    assert shown == [1, 101, 201, 300, 400]
