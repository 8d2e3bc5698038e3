"""`lorsa-worker --standalone` with the real binary: killed, stopped, run twice at once."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest
from service import BIN, PATIENCE, wait_for
from synthetic_set import write_set

# 200 steps, a checkpoint each 20.
SPEC = (
    "activation_set: 'set' n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: 25600 threads: 1 "
    "sequences_per_step: 4 evaluation_interval_tokens: 6400 checkpoint_interval_tokens: 2560 "
)
EXACT = ("lorsa.safetensors", "state.safetensors", "config.json", "state.json")
STOPPED_EARLY = 75


@pytest.fixture(scope="module")
def sealed_set(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("sets") / "set"
    write_set(folder)
    subprocess.run([BIN / "lorsa-set", "seal", folder], check=True, timeout=PATIENCE)
    return folder


class Run:
    """A standalone run in a folder of its own."""

    end = "step-000000200"

    def __init__(self, sealed_set: pathlib.Path, folder: pathlib.Path, spec: str = SPEC) -> None:
        self.folder = folder
        arguments = ["--standalone", spec, "--set", sealed_set, "--out", folder]
        self.command = [BIN / "lorsa-worker", *arguments]

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)

    def finish(self, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command,
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, **(variables or {})},
        )

    def checkpoints(self) -> list[str]:
        folder = self.folder / "checkpoints"
        return sorted(path.parent.name for path in folder.glob("step-*/manifest.json"))

    def newest(self) -> str:
        return max(self.checkpoints(), default="")

    def last(self) -> pathlib.Path:
        """Of a run that has ended."""
        newest = self.folder / "checkpoints" / self.checkpoints()[-1]
        assert newest.name == self.end
        return newest

    def digests(self) -> dict[str, str]:
        return {n: hashlib.sha256((self.last() / n).read_bytes()).hexdigest() for n in EXACT}

    def environment(self) -> dict[str, object]:
        """Of the last checkpoint, as its manifest says."""
        manifest = json.loads((self.last() / "manifest.json").read_text())
        return dict(manifest["environment"])


@pytest.mark.parametrize("precision", ["FP32", "BF16"])
def test_killed_again_and_again_it_ends_with_the_same_bits(
    sealed_set: pathlib.Path, tmp_path: pathlib.Path, precision: str
) -> None:
    spec = f"{SPEC} precision: PRECISION_{precision}"
    whole = Run(sealed_set, tmp_path / "whole", spec)
    assert whole.finish().returncode == 0
    killed = Run(sealed_set, tmp_path / "killed", spec)
    chance = random.Random(1)
    kills = 0
    while kills < 8:
        before = killed.newest()
        process = killed.start()
        # Some time after a further checkpoint appeared: in a step, or while the next is written.
        while killed.newest() == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        ended = process.poll() is not None
        process.kill()
        process.communicate()
        if ended:
            break
        kills += 1
    assert killed.finish().returncode == 0
    assert kills >= 2
    assert killed.digests() == whole.digests()
    # The later line of a step counts; every step has one.
    lines = [json.loads(line) for line in (killed.folder / "metrics.jsonl").open()]
    steps = {line["step"]: line["values"]["loss"] for line in lines if line["kind"] == "training"}
    assert sorted(steps) == list(range(1, 201))


def test_variables_of_the_environment_change_no_bit(
    sealed_set: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "end", "step-000000020")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # two threads, perhaps of a busy machine
    spec = SPEC.replace("threads: 1", "threads: 2").replace("tokens: 25600", "tokens: 2560")
    plain = Run(sealed_set, tmp_path / "plain", spec)
    assert plain.finish().returncode == 0
    assert plain.environment()["threads"] == 2
    for variables in (
        {"OMP_THREAD_LIMIT": "1"},
        {"OMP_DYNAMIC": "TRUE", "MKL_CBWR": "COMPATIBLE", "OMP_MAX_ACTIVE_LEVELS": "0"},
    ):
        run = Run(sealed_set, tmp_path / "-".join(variables), spec)
        ended = run.finish(variables)
        assert ended.returncode == 0, ended.stderr
        for name in variables:
            assert name in ended.stderr
        assert run.environment() == plain.environment()
        assert run.digests() == plain.digests()


def test_a_signal_leaves_a_checkpoint_and_its_own_exit_code(
    sealed_set: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    run = Run(sealed_set, tmp_path / "run")
    process = run.start()
    wait_for("a checkpoint", run.checkpoints)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == STOPPED_EARLY, errors
    assert "run the same command again" in errors
    assert run.finish().returncode == 0
    assert run.checkpoints()[-1] == "step-000000200"


def test_two_runs_do_not_share_a_folder(sealed_set: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run = Run(sealed_set, tmp_path / "run")
    process = run.start()
    try:
        lock = run.folder / "lock"
        wait_for("the folder to be taken", lambda: lock.exists() and lock.read_text())
        process.send_signal(signal.SIGSTOP)  # or it could be done before the second one looks
        second = run.finish()
        assert second.returncode == 1
        assert f"pid {process.pid}" in second.stderr
    finally:
        process.kill()
        process.communicate()


def test_checkpoints_are_kept_by_the_rule(sealed_set: pathlib.Path, tmp_path: pathlib.Path) -> None:
    spec = SPEC + "keep_checkpoints: 2 keep_every_tokens: 10240"
    run = Run(sealed_set, tmp_path / "run", spec)
    assert run.finish().returncode == 0
    # Steps 0, 80 and 160 are the first of so many tokens; 180 and 200 the newest; and the best.
    evaluations = [
        json.loads(line)
        for line in (run.folder / "metrics.jsonl").open()
        if json.loads(line)["kind"] == "evaluation"
    ]
    best = min(evaluations, key=lambda line: line["values"]["fvu"])["step"]
    kept = {0, 80, 160, 180, 200} | ({best} if best % 20 == 0 else set())
    assert run.checkpoints() == [f"step-{step:09}" for step in sorted(kept)]


def test_what_cannot_fit_is_refused_before_it_begins(
    sealed_set: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    spec = (
        "activation_set: 'set' n_ov_heads: 1048576 n_qk_heads: 2 top_k: 8 threads: 1 "
        "sequences_per_step: 4096 tokens: 1000000"
    )
    refused = Run(sealed_set, tmp_path / "run", spec).finish()
    assert refused.returncode == 1
    assert "of memory" in refused.stderr
    assert "lower sequences_per_step" in refused.stderr
