"""Runs that start from the weights of a checkpoint: another program's, another job's, alone."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import lorsa
import pytest
from finished_job import SPEC, service_with_finished_job
from lorsa import convert_command
from lorsa.activation_set import ActivationSet
from lorsa.client import Client
from lorsa.evaluation import evaluate
from service import BIN, PATIENCE, Service, wait_for

# A short run that improves from its first step on.
GENTLE: dict[str, Any] = {
    "activation_set": "set",
    "tokens": 6400,
    "threads": 1,
    "sequences_per_step": 4,
    "evaluation_interval_tokens": 3200,
    "learning_rate": 1e-3,
    "resample_interval_fraction": 0.0,
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service_with_finished_job(tmp_path_factory.mktemp("service")) as service:
        yield service


def convert(*arguments: str | pathlib.Path) -> None:
    assert convert_command.main([str(argument) for argument in arguments]) == 0


def fvu_of(folder: pathlib.Path, service: Service) -> float:
    """By lorsa.Lorsa, on the held-out sequences."""
    with ActivationSet(service.sets / "set") as activations:
        return evaluate(lorsa.Lorsa.load(folder), activations)["fvu"]


def evaluations(service: Service, spec: dict[str, Any], job_id: str) -> list[float]:
    """FVU at each evaluation of a job that is run to its end."""
    with Client(service.address) as client:
        job = client.submit(spec, job_id).wait(PATIENCE)
        assert job.state == "SUCCEEDED", "".join(job.logs())
        return [float(fvu) for fvu in job.metrics()["fvu"]]


def test_a_checkpoint_of_llamascopium_is_imported_and_trained_on(
    service: Service, tmp_path: pathlib.Path
) -> None:
    service.cli("checkpoint", "download", "done@best", "--out", tmp_path / "ours")
    convert("to-llamascopium", tmp_path / "ours", tmp_path / "theirs")
    imported = service.sets / "imported"  # where the server may read
    known = ("--hooks", "transformers", "--scales", "folded")
    convert("from-llamascopium", tmp_path / "theirs", imported, *known)
    service.cli("checkpoint", "import", "theirs", imported)
    said = service.job("theirs")["resolved_spec"]["training"]
    assert said["n_ov_heads"] == 64 and said["rope"]["rotary_dim"] == 16 and said["attn_scale"] == 4

    expected = fvu_of(imported, service)
    checkpoint = "jobs/theirs/checkpoints/latest"
    spec = GENTLE | {"initial_checkpoint": checkpoint, "precision": "PRECISION_FP32", "seed": 7}
    first, *later = evaluations(service, spec, "trained-on")
    assert first == pytest.approx(expected, rel=1e-4)
    assert all(fvu < first for fvu in later)
    resolved = service.job("trained-on")["resolved_spec"]["training"]
    assert resolved["initial_checkpoint"] == "jobs/theirs/checkpoints/step-000000000"
    assert resolved["n_qk_heads"] == 8 and resolved["top_k"] == 8


def test_a_job_starts_where_another_was_best_with_other_settings(service: Service) -> None:
    best = service.job("done")["best_fvu"]
    checkpoint = {"initial_checkpoint": "jobs/done/checkpoints/best"}
    first, *later = evaluations(service, GENTLE | checkpoint | {"seed": 9}, "same-set")
    assert first == pytest.approx(best, rel=1e-5)
    assert later[-1] < first
    fewer, *_ = evaluations(service, GENTLE | checkpoint | {"top_k": 2}, "fewer-heads")
    assert fewer > first


def test_it_recovers_and_outlives_the_job_that_it_came_from(service: Service) -> None:
    with Client(service.address) as client:
        assert client.submit(SPEC | {"seed": 2}, "parent").wait(PATIENCE).state == "SUCCEEDED"
        wait_for("the parent's worker to leave", lambda: not service.worker_pids())
        spec = GENTLE | {"initial_checkpoint": "jobs/parent/checkpoints/best", "tokens": 64000}
        client.submit(spec, "child")
    service.cli("job", "delete", "parent")
    # It may have checkpoints of its own by then, or have to read the other's weights again.
    wait_for("the worker", service.worker_pids)
    service.kill_workers()
    service.wait_for_state("child", "SUCCEEDED")
    assert service.job("child")["attempt"] == 2


def test_what_the_weights_fix_is_refused_by_field(service: Service) -> None:
    spec = 'activation_set: "set" initial_checkpoint: "jobs/done/checkpoints/best" '
    refused = service.cli("job", "submit", spec + "n_ov_heads: 128", "--id", "x", ok=False)
    assert refused.returncode == 1
    assert "n_ov_heads" in refused.stderr and "initial_checkpoint" in refused.stderr
    gone = spec.replace("done", "nobody")
    assert "nobody" in service.cli("job", "submit", gone, "--id", "x", ok=False).stderr


def test_a_standalone_run_starts_from_a_folder(service: Service, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "ours"
    service.cli("checkpoint", "download", "done@best", "--out", folder)
    spec = json.dumps(GENTLE)
    command = [BIN / "lorsa-worker", "--standalone", spec, "--set", service.sets / "set"]
    arguments = [*command, "--out", tmp_path / "run", "--initial-checkpoint", folder]
    subprocess.run(arguments, check=True, capture_output=True, timeout=PATIENCE)
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    points = [point for point in map(json.loads, lines) if point["kind"] == "evaluation"]
    assert points[0]["values"]["fvu"] == pytest.approx(service.job("done")["best_fvu"], rel=1e-5)
    assert points[-1]["values"]["fvu"] < points[0]["values"]["fvu"]
    named = json.dumps(GENTLE | {"initial_checkpoint": "jobs/done/checkpoints/best"})
    refused = subprocess.run(
        [BIN / "lorsa-worker", "--standalone", named, *arguments[3:-2]],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert refused.returncode == 1 and "--initial-checkpoint" in refused.stderr
