"""Jobs from submission to checkpoint with the real binaries: crashes, pauses, bad data."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import signal
import time
from collections.abc import Iterator

import disks
import h5py
import numpy as np
import pytest
from service import Service, wait_for
from synthetic_set import write_set

# 400 steps; a few seconds.
SPEC = (
    "activation_set: '{name}' n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: {tokens} threads: 1 "
    "sequences_per_step: 4 evaluation_interval_tokens: 12800 checkpoint_interval_tokens: 6400 "
    "keep_checkpoints: 100"
)
TOKENS = 51200
EXACT = ("lorsa.safetensors", "state.safetensors", "config.json")


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    with Service(tmp_path, "--disk-reserve-bytes", "0") as service:
        service.add_set()
        yield service


def submit(service: Service, job_id: str, tokens: int = TOKENS, name: str = "set") -> None:
    service.cli("job", "submit", "--id", job_id, SPEC.format(name=name, tokens=tokens))


def final_digests(service: Service, job_id: str) -> dict[str, str]:
    """sha256 of the files for which exactness is claimed, of the newest checkpoint."""
    newest = max(service.checkpoints(job_id), key=lambda c: int(c["step"]))
    folder = service.data / "jobs" / job_id / "checkpoints" / newest["name"].split("/")[-1]
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in EXACT}
    published = {file["name"]: file["sha256"] for file in newest["files"]}
    assert digests.items() <= published.items()
    return digests


def undisturbed(service: Service) -> dict[str, str]:
    submit(service, "undisturbed")
    service.wait_for_state("undisturbed", "SUCCEEDED", "FAILED")
    return final_digests(service, "undisturbed")


def wait_for_checkpoints(service: Service, job_id: str, count: int) -> None:
    wait_for(f"{count} checkpoints", lambda: len(service.checkpoints(job_id)) >= count)


def wait_for_no_worker(service: Service) -> None:
    wait_for("the worker to leave", lambda: not service.worker_pids())


def test_a_job_trains_evaluates_and_its_checkpoint_downloads(
    service: Service, tmp_path: pathlib.Path
) -> None:
    submit(service, "job")
    watch = service.cli("job", "watch", "job")
    assert "SUCCEEDED" in watch.stdout
    points = service.json("job", "metrics", "job")
    assert [int(p.get("step", 0)) for p in points] == [0, 100, 200, 300, 400]
    fvu = [p["values"]["fvu"] for p in points]
    assert fvu[-1] < fvu[0]
    assert len(service.json("job", "metrics", "job", "--kind", "training")) == 400
    service.cli("checkpoint", "download", "job@best", "--out", tmp_path / "best")
    best = service.job("job")["best_checkpoint"]
    files = next(c for c in service.checkpoints("job") if c["name"] == best)["files"]
    for file in files:
        contents = (tmp_path / "best" / file["name"]).read_bytes()
        assert hashlib.sha256(contents).hexdigest() == file["sha256"]


def test_killed_workers_change_nothing_in_the_result(service: Service) -> None:
    expected = undisturbed(service)
    submit(service, "killed")
    for published in (1, 3, 6):
        wait_for_checkpoints(service, "killed", published)
        time.sleep(0.05 * published)  # another moment of the step each time
        service.kill_workers()
    job = service.wait_for_state("killed", "SUCCEEDED", "FAILED")
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    assert job["attempt"] >= 2
    assert final_digests(service, "killed") == expected
    steps = [int(p["step"]) for p in service.json("job", "metrics", "killed", "--kind", "training")]
    assert steps == list(range(1, 401))


def test_a_damaged_checkpoint_is_taken_off_the_list_and_the_one_before_is_used(
    service: Service,
) -> None:
    expected = undisturbed(service)
    submit(service, "job")
    wait_for_checkpoints(service, "job", 3)
    for pid in service.worker_pids():
        os.kill(pid, signal.SIGSTOP)
    time.sleep(1)  # one that it had sent before that is published
    newest = service.checkpoints("job")[-1]["name"].split("/")[-1]
    job = service.data / "jobs/job"
    weights = job / "checkpoints" / newest / "lorsa.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    service.kill_workers()
    ended = service.wait_for_state("job", "SUCCEEDED", "FAILED")
    assert ended["state"] == "JOB_STATE_SUCCEEDED", ended
    assert (job / "damaged" / newest).is_dir()
    assert final_digests(service, "job") == expected
    watched = service.cli("job", "watch", "job").stdout
    assert "WARNING" in watched
    assert str(weights) in watched


def test_a_pinned_checkpoint_outlives_the_retention(service: Service) -> None:
    spec = SPEC.replace("keep_checkpoints: 100", "keep_checkpoints: 1")
    service.cli("job", "submit", "--id", "job", spec.format(name="set", tokens=TOKENS))
    wait_for_checkpoints(service, "job", 1)
    service.cli("checkpoint", "pin", "job@latest")
    pinned = {c["name"] for c in service.checkpoints("job") if c.get("pinned")}
    assert len(pinned) == 1
    service.wait_for_state("job", "SUCCEEDED", "FAILED")
    left = {c["name"]: c for c in service.checkpoints("job")}
    assert pinned <= left.keys()
    assert len(left) <= 3  # the newest, the best and the pinned
    assert "pinned" in service.cli("checkpoint", "list", "job").stdout
    service.cli("checkpoint", "unpin", pinned.pop())


def test_a_killed_server_loses_nothing_and_the_worker_goes_on(service: Service) -> None:
    expected = undisturbed(service)
    submit(service, "job")
    submit(service, "queued")
    wait_for_checkpoints(service, "job", 2)
    before = service.checkpoints("job")
    workers = service.worker_pids()
    service.kill()
    time.sleep(1)
    service.start()
    after = {c["name"]: c for c in service.checkpoints("job")}
    for checkpoint in before:
        assert after[checkpoint["name"]]["files"] == checkpoint["files"]
    for job in ("job", "queued"):
        assert service.wait_for_state(job, "SUCCEEDED", "FAILED")["state"] == "JOB_STATE_SUCCEEDED"
        assert final_digests(service, job) == expected
    assert service.job("job")["attempt"] == 1, "the worker should have outlived the server"
    assert workers


def test_terminated_server_drains_and_the_next_one_goes_on(service: Service) -> None:
    expected = undisturbed(service)
    submit(service, "job")
    wait_for_checkpoints(service, "job", 2)
    assert service.terminate() == 0
    wait_for_no_worker(service)
    service.start()
    service.wait_for_state("job", "SUCCEEDED", "FAILED")
    assert final_digests(service, "job") == expected
    history = service.json("job", "watch", "job")
    assert "DRAIN" in [item["event"]["reason"] for item in history if "event" in item]


def test_pause_resume_and_cancel(service: Service) -> None:
    expected = undisturbed(service)
    submit(service, "job")
    wait_for_checkpoints(service, "job", 2)
    service.cli("job", "pause", "job")
    service.wait_for_state("job", "PAUSED", "SUCCEEDED")
    wait_for_no_worker(service)
    service.cli("job", "resume", "job")
    service.wait_for_state("job", "SUCCEEDED", "FAILED")
    assert final_digests(service, "job") == expected

    submit(service, "cancelled", tokens=10_000_000)
    wait_for_checkpoints(service, "cancelled", 1)
    service.cli("job", "cancel", "cancelled")
    service.wait_for_state("cancelled", "CANCELLED")
    wait_for_no_worker(service)
    assert service.checkpoints("cancelled")


def test_impossible_specifications_name_their_fields(service: Service) -> None:
    result = service.cli(
        "job",
        "submit",
        "activation_set: 'set' n_ov_heads: 60 n_qk_heads: 8 top_k: 100 tokens: 0",
        ok=False,
    )
    assert result.returncode != 0
    for field in ("n_ov_heads", "top_k", "tokens"):
        assert field in result.stderr
    missing = service.cli("job", "submit", "activation_set: 'nothing'", ok=False)
    assert missing.returncode != 0
    assert "nothing" in missing.stderr
    assert service.json("job", "list") == []


def damage(service: Service, name: str) -> pathlib.Path:
    folder = service.sets / name
    write_set(folder, seed=1)
    return folder


def refused(service: Service, name: str) -> str:
    result = service.cli("set", "register", name, service.sets / name, ok=False)
    assert result.returncode != 0
    return result.stderr


def test_damaged_sets_are_refused_by_file_and_reason(service: Service) -> None:
    shard = damage(service, "truncated") / "shard-00001.h5"
    shard.write_bytes(shard.read_bytes()[:-1000])
    assert "shard-00001.h5" in refused(service, "truncated")

    (damage(service, "missing") / "shard-00000.h5").unlink()
    assert "shard-00000" in refused(service, "missing")

    with h5py.File(damage(service, "nan") / "shard-00001.h5", "r+") as file:
        file["mhsa_output"][3, 4, 5] = np.nan
    message = refused(service, "nan")
    assert "shard-00001.h5" in message
    assert "mhsa_output" in message

    with h5py.File(damage(service, "shape") / "shard-00001.h5", "r+") as file:
        del file["mask"]
        file["mask"] = np.ones((1, 2), np.uint8)
    assert "mask" in refused(service, "shape")

    assert service.cli("set", "list").returncode == 0


def test_a_set_whose_folder_vanished_fails_the_job_not_the_server(service: Service) -> None:
    shutil.rmtree(service.add_set("gone", seed=1))
    submit(service, "job", name="gone")
    job = service.wait_for_state("job", "FAILED", "SUCCEEDED")
    assert job["state"] == "JOB_STATE_FAILED"
    assert "gone" in job["message"]
    assert service.cli("info").returncode == 0


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """12 MiB for the service's data folder."""
    with disks.small_disk(tmp_path / "data", 12) as disk:
        yield disk


def test_a_full_disk_keeps_the_job_waiting_and_it_goes_on(
    small_disk: pathlib.Path, service: Service
) -> None:
    expected = undisturbed(service)
    shutil.rmtree(small_disk / "jobs/undisturbed/checkpoints")
    submit(service, "job", tokens=TOKENS)
    wait_for_checkpoints(service, "job", 2)
    ballast = disks.fill(small_disk)
    before = service.checkpoints("job")
    wait_for("the condition to show", lambda: service.job("job")["waiting_for"] == "DISK_FULL")
    assert service.state("job") == "RUNNING"
    assert service.checkpoints("job")[: len(before)] == before
    ballast.unlink()
    assert service.wait_for_state("job", "SUCCEEDED", "FAILED")["state"] == "JOB_STATE_SUCCEEDED"
    assert service.job("job")["waiting_for"] == ""
    assert final_digests(service, "job") == expected
