"""What the service trained is worth the same in C++, in lorsa.Lorsa and in Llamascopium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lorsa
import pytest
import torch
from finished_job import SPEC, service_with_finished_job
from llamascopium.evaluator import EvalConfig, Evaluator
from llamascopium.models.lorsa import LowRankSparseAttention
from lorsa import convert_command, evaluate_command
from lorsa.client import Client
from torch import Tensor

TOLERANCE = 1e-4  # in fp32; a worker that evaluates in bf16 differs by a few times that
STEP = SPEC["sequences_per_step"]  # sequences of a batch, also when the worker evaluates


def batches(folder: Path, size: int, model: LowRankSparseAttention) -> Iterator[dict[str, Tensor]]:
    """The held-out sequences as Llamascopium takes them."""
    for batch in lorsa.SequenceDataset(folder, size, subset="held_out"):
        yield {
            model.cfg.hook_point_in: batch.mhsa_input,
            model.cfg.hook_point_out: batch.mhsa_output,
            "tokens": batch.tokens.long(),
            "mask": batch.mask.int(),
        }


def explained_variance(folder: Path, size: int, model: LowRankSparseAttention) -> float:
    """By Llamascopium's own evaluation."""
    with torch.no_grad():
        found = Evaluator(EvalConfig()).evaluate(model, batches(folder, size, model))
    return found["metrics/explained_variance"]


def test_fvu_and_explained_variance_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        service_with_finished_job(tmp_path, precision="PRECISION_FP32") as service,
        Client(service.address) as client,
    ):
        job = client.job("done")
        table = job.metrics()
        checkpoint = job.checkpoint("latest")
        folder = checkpoint.download(tmp_path / "checkpoint")
    activations = service.sets / "set"
    fvu, variance = (float(table[name][-1]) for name in ("fvu", "explained_variance"))
    assert table["step"][-1] == checkpoint.step
    assert checkpoint.fvu == pytest.approx(fvu, rel=1e-12)
    assert 0 < fvu < 0.9, "a Lorsa that has learnt something"

    assert evaluate_command.main(["--checkpoint", str(folder), "--set", str(activations)]) == 0
    assert json.loads(capsys.readouterr().out)["fvu"] == pytest.approx(fvu, rel=TOLERANCE)
    with lorsa.ActivationSet(activations) as held:
        ours = lorsa.evaluate(lorsa.Lorsa.load(folder), held, batch_sequences=STEP)
    assert ours["fvu"] == pytest.approx(fvu, rel=TOLERANCE)
    assert ours["explained_variance"] == pytest.approx(variance, rel=TOLERANCE)

    arguments = ["to-llamascopium", str(folder), str(tmp_path / "theirs")]
    assert convert_command.main(arguments) == 0
    theirs = LowRankSparseAttention.from_pretrained(str(tmp_path / "theirs"), strict_loading=True)
    assert isinstance(theirs, LowRankSparseAttention)
    assert explained_variance(activations, STEP, theirs) == pytest.approx(variance, rel=TOLERANCE)
    # One batch of all targets: their mean is that of the FVU.
    assert 1 - explained_variance(activations, 128, theirs) == pytest.approx(fvu, rel=TOLERANCE)
