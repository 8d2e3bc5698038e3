"""Workers that do not share the server's disk: same guarantees, same bits.

A wrapper runs lorsa-worker in a mount namespace in which data folder and sets are empty disks.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import signal
import time
from collections.abc import Iterator

import pytest
from service import BIN, Service, wait_for

STEPS = 100
# 14 MiB a checkpoint, so that there is a middle of its upload.
SPEC = (
    "activation_set: 'set' n_ov_heads: 18000 n_qk_heads: 8 top_k: 8 tokens: 3200 threads: 1 "
    "sequences_per_step: 1 evaluation_interval_tokens: 1600 checkpoint_interval_tokens: 320 "
    "keep_checkpoints: 2 resample_interval_fraction: 0"
)
EXACT = ("lorsa.safetensors", "state.safetensors", "config.json")
WRAPPER = """#!/bin/sh
exec unshare --mount sh -c '
  mount -t tmpfs none {data} && mount -t tmpfs none {sets} || exit 1
  echo "in sight: $(find {data} {sets} -mindepth 1 | wc -l)"
  exec {bin}/lorsa-worker --bootstrap=- --scratch={scratch}'
"""


class RemoteService(Service):
    """Its first start runs workers beside it, all later ones through the wrapper."""

    @property
    def scratch(self) -> pathlib.Path:
        return self.folder / "scratch"

    def move_workers_away(self) -> None:
        """Restarts the server with the wrapper."""
        wrapper = self.folder / "wrapper"
        paths = {"data": self.data, "sets": self.sets, "scratch": self.scratch, "bin": BIN}
        wrapper.write_text(WRAPPER.format(**paths))
        wrapper.chmod(0o755)
        self.terminate()
        self.flags += ("--worker-wrapper", str(wrapper), "--worker-endpoint", self.listen)
        self.start()

    def partial_uploads(self, job_id: str) -> list[pathlib.Path]:
        return list((self.data / "jobs" / job_id).glob("attempts/*/staging/step-*/upload-*"))

    def submit(self, job_id: str, *more: str) -> None:
        self.cli("job", "submit", "--id", job_id, " ".join((SPEC, *more)))

    def finish(self, job_id: str) -> dict[str, str]:
        """sha256 of the files for which exactness is claimed, of the last checkpoint."""
        job = self.wait_for_state(job_id, "SUCCEEDED", "FAILED")
        assert job["state"] == "JOB_STATE_SUCCEEDED", job
        folder = self.data / "jobs" / job_id / "checkpoints" / f"step-{STEPS:09}"
        return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in EXACT}


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[RemoteService]:
    with RemoteService(tmp_path, "--disk-reserve-bytes", "0") as service:
        service.add_set()
        yield service


def wait_for_checkpoints(service: Service, job_id: str, step: int) -> None:
    def reached() -> bool:
        return any(int(c.get("step", 0)) >= step for c in service.checkpoints(job_id))

    wait_for(f"a checkpoint of step {step}", reached)


def stop_in_the_middle_of_an_upload(service: RemoteService, job_id: str) -> None:
    """The workers stand still, and a part of a file has come to the server."""

    def caught() -> bool:
        if not service.partial_uploads(job_id):
            return False
        pids = service.worker_pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.2)  # what is on its way arrives
        if any(path.stat().st_size > 0 for path in service.partial_uploads(job_id)):
            return True
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        return False

    deadline = time.monotonic() + 60
    while not caught():
        assert time.monotonic() < deadline, "no upload was caught in its middle"


def test_without_the_servers_disk_a_job_gives_the_same_bits(service: RemoteService) -> None:
    service.submit("beside")
    expected = service.finish("beside")
    service.move_workers_away()
    service.submit("away")
    wait_for_checkpoints(service, "away", 20)
    service.cli("job", "pause", "away")
    service.wait_for_state("away", "PAUSED", "FAILED", "SUCCEEDED")
    service.cli("job", "resume", "away")
    assert service.finish("away") == expected
    assert service.job("away")["attempt"] == 2
    log = service.data / "jobs/away/attempts/0002/worker.log"
    assert "in sight: 0\n" in log.read_text()
    wait_for("the worker to leave", lambda: not service.worker_pids(), patience=20)
    assert list(service.scratch.iterdir()) == []
    assert service.partial_uploads("away") == []


def test_a_job_starts_away_from_the_same_weights(service: RemoteService) -> None:
    service.submit("first")
    service.finish("first")
    start = f"initial_checkpoint: 'jobs/first/checkpoints/step-{STEPS:09}' seed: 3"
    service.submit("beside", start)
    expected = service.finish("beside")
    service.move_workers_away()
    service.submit("away", start)
    assert service.finish("away") == expected


def test_killed_on_either_side_it_ends_with_the_same_bits(service: RemoteService) -> None:
    service.submit("beside")
    expected = service.finish("beside")
    service.move_workers_away()
    service.submit("away")

    wait_for_checkpoints(service, "away", 10)
    service.kill_workers()  # between two uploads, mostly

    wait_for_checkpoints(service, "away", 20)
    stop_in_the_middle_of_an_upload(service, "away")
    service.kill_workers()

    wait_for_checkpoints(service, "away", 50)
    stop_in_the_middle_of_an_upload(service, "away")
    attempt = service.job("away")["attempt"]
    service.kill()
    [part] = service.partial_uploads("away")
    size = part.stat().st_size
    service.start()
    assert part.stat().st_size == size
    for pid in service.worker_pids():
        os.kill(pid, signal.SIGCONT)

    assert service.finish("away") == expected
    assert attempt == 3
    assert service.job("away")["attempt"] == attempt, "the same worker went on"
    points = service.json("job", "metrics", "away", "--kind", "training")
    assert [int(point["step"]) for point in points] == list(range(1, STEPS + 1))
    wait_for("the worker to leave", lambda: not service.worker_pids(), patience=20)
    assert list(service.scratch.iterdir()) == [], "also what the killed ones left"
