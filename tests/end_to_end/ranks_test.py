"""Jobs of several ranks with the real mpirun: the same run as of one, and the death of any rank."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from service import BIN, PATIENCE, Service, wait_for

# 200 steps, a few seconds; two sequences for each of two ranks.
SPEC = (
    "activation_set: 'set' n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: {tokens} threads: 1 "
    "sequences_per_step: 4 evaluation_interval_tokens: 6400 checkpoint_interval_tokens: 3200 "
    "keep_checkpoints: 100 precision: PRECISION_FP32 ranks: {ranks}"
)
# What else uses the kernel: dead heads, averaged weights, the refit at the end.
LEVERS = (
    "aux_coefficient: 0.03 dead_after_fraction: 0.02 resample_interval_fraction: 0.1 "
    "ema_fraction: 0.02 refit_tokens: 2048"
)
TOKENS = 25600
EXACT = ("lorsa.safetensors", "state.safetensors", "config.json")
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n")


@pytest.fixture
def service(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    # What a killed mpirun leaves behind goes with the test's folder. lorsad finds mpirun by PATH.
    places = ("btl_vader_backing_directory", "orte_tmpdir_base")
    parameters = " ".join(f"--mca {place} {tmp_path}" for place in places)
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.parent.mkdir()
    mpirun.write_text(f'#!/bin/sh\nexec {shutil.which("mpirun")} {parameters} "$@"\n')
    mpirun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{mpirun.parent}:{os.environ['PATH']}")
    # Three ranks are more than a small machine has cores.
    with Service(tmp_path, "--cpu-slots", "4") as service:
        service.add_set()
        yield service


def submit(service: Service, job_id: str, ranks: int, tokens: int = TOKENS, more: str = "") -> None:
    spec = SPEC.format(ranks=ranks, tokens=tokens)
    service.cli("job", "submit", "--id", job_id, f"{spec} {more}")


def succeed(service: Service, job_id: str) -> dict[str, str]:
    """Waits for the job's end; sha256 of the exact files of its last checkpoint."""
    job = service.wait_for_state(job_id, "SUCCEEDED", "FAILED")
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    checkpoints = service.data / "jobs" / job_id / "checkpoints"
    return digests(max(checkpoints.iterdir()))


def digests(checkpoint: pathlib.Path) -> dict[str, str]:
    return {name: hashlib.sha256((checkpoint / name).read_bytes()).hexdigest() for name in EXACT}


def processes(service: Service) -> dict[str, int]:
    """Living processes of the running attempt: "mpirun" and the ranks by number."""
    found = {}
    for pid in service.worker_pids():
        try:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        ranks = [v.split(b"=")[1] for v in environment if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
        found[ranks[0].decode() if ranks else "mpirun"] = pid
    return found


def wait_for_death(service: Service, pids: set[int]) -> None:
    """Sooner than the server would kill who is silent (60 s)."""
    wait_for("the others to end", lambda: not pids & set(service.worker_pids()), patience=40)


def wait_for_checkpoints(service: Service, job_id: str, count: int) -> None:
    wait_for(f"{count} checkpoints", lambda: len(service.checkpoints(job_id)) >= count)


def losses(service: Service, job_id: str) -> list[float]:
    points = service.json("job", "metrics", job_id, "--kind", "training")
    return [p["values"]["loss"] for p in sorted(points, key=lambda p: int(p["step"]))]


def last_fvu(service: Service, job_id: str) -> float:
    return float(service.json("job", "metrics", job_id)[-1]["values"]["fvu"])


def test_two_ranks_train_as_one_does(service: Service) -> None:
    submit(service, "one", ranks=1)
    submit(service, "two", ranks=2)
    assert succeed(service, "one") != succeed(service, "two"), "sums in another order, rounded"
    assert service.job("two")["attempt"] == 1
    one, two = losses(service, "one"), losses(service, "two")
    assert len(one) == len(two) == 200
    assert two[:20] == pytest.approx(one[:20], rel=1e-4)
    assert last_fvu(service, "two") == pytest.approx(last_fvu(service, "one"), rel=0.01)


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_death_of_any_process_changes_nothing_in_the_result(
    service: Service, ranks: int
) -> None:
    submit(service, "undisturbed", ranks, more=LEVERS)
    expected = succeed(service, "undisturbed")
    submit(service, "killed", ranks, more=LEVERS)
    for published, victim in ((1, "1"), (2, "mpirun"), (3, "0")):
        wait_for_checkpoints(service, "killed", published)
        attempt = wait_for("all processes", lambda: len(p := processes(service)) == ranks + 1 and p)
        time.sleep(0.05 * published)  # another moment of the step each time
        os.kill(attempt[victim], signal.SIGKILL)
        wait_for_death(service, set(attempt.values()))
    assert succeed(service, "killed") == expected
    job = service.job("killed")
    assert job["attempt"] == 4, job
    history = [i["event"] for i in service.json("job", "watch", "killed") if "event" in i]
    assert [event["reason"] for event in history].count("WORKER_LOST") == 3
    assert len(losses(service, "killed")) == 200


def test_ranks_outlive_the_server_and_a_pause_is_exact(service: Service) -> None:
    submit(service, "undisturbed", ranks=2)
    expected = succeed(service, "undisturbed")
    submit(service, "job", ranks=2)
    wait_for_checkpoints(service, "job", 2)
    service.kill()
    time.sleep(1)
    service.start()
    assert succeed(service, "job") == expected
    assert service.job("job")["attempt"] == 1, "the ranks should have outlived the server"

    submit(service, "paused", ranks=2)
    wait_for_checkpoints(service, "paused", 2)
    service.cli("job", "pause", "paused")
    service.wait_for_state("paused", "PAUSED", "SUCCEEDED")
    wait_for("all processes to leave", lambda: not service.worker_pids())
    service.cli("job", "resume", "paused")
    assert succeed(service, "paused") == expected

    submit(service, "cancelled", ranks=2, tokens=10_000_000)
    wait_for_checkpoints(service, "cancelled", 1)
    service.cli("job", "cancel", "cancelled")
    service.wait_for_state("cancelled", "CANCELLED")
    wait_for("all processes to leave", lambda: not service.worker_pids())


def is_locked(folder: pathlib.Path) -> bool:
    """Whether a standalone run writes into it."""
    with (folder / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def standalone(service: Service, out: pathlib.Path, spec: str, *mpirun: str) -> list[str]:
    options = ["--standalone", spec, "--set", str(service.sets / "set"), "--out", str(out)]
    return [*mpirun, str(BIN / "lorsa-worker"), *options]


def test_ranks_without_a_server(service: Service, tmp_path: pathlib.Path) -> None:
    submit(service, "job", ranks=2)
    expected = succeed(service, "job")
    out = tmp_path / "out"
    # The number of ranks is mpirun's where the specification leaves it out.
    spec = SPEC.format(ranks=2, tokens=TOKENS).replace("ranks: 2", "")
    command = standalone(service, out, spec, *MPIRUN, "2")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        wait_for("a checkpoint", lambda: list((out / "checkpoints").glob("step-*100")))
        process.kill()
    wait_for("rank 0 to end as well", lambda: not is_locked(out))
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    assert digests(max((out / "checkpoints").iterdir())) == expected

    alone = standalone(service, tmp_path / "alone", spec + " ranks: 2")
    refused = subprocess.run(alone, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 1
    assert "ranks is 2, but 1 process was started" in refused.stderr
