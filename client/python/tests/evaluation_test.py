"""Metrics by numbers worked out by hand, and the command on a real checkpoint and set."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import write_checkpoint

from lorsa import ActivationSet, Lorsa, evaluate
from lorsa.errors import LorsaError
from lorsa.evaluate_command import main
from lorsa.evaluation import EvaluationSums

Harvest = Callable[..., list[Path]]
CONFIG: dict[str, Any] = {
    "format": "lorsa-checkpoint",
    "format_version": 1,
    "d_model": 48,
    "n_ov_heads": 8,
    "n_qk_heads": 2,
    "d_qk": 4,
    "top_k": 3,
    "selection": "relu",
    "select_by_decoder_norm": True,
    "decoder_bias": True,
    "attn_scale": 2.0,
    "rope": None,
    "qk_norm": None,
    "context": 16,
    "input_scale": 0.5,
    "output_scale": 2.0,
    "hook_convention": "transformers.self_attn",
    "model": {"name": "tiny", "revision": "local"},
    "layer": 1,
}


@pytest.fixture(scope="module")
def sealed(run_harvest: Harvest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_harvest(tmp_path_factory.mktemp("evaluated") / "set", tokens=16 * 140)[0]


def _checkpoint(folder: Path, bias: torch.Tensor) -> Path:
    """All weights zero but for b_D: predicts a constant."""
    d, H, G, D = (CONFIG[key] for key in ("d_model", "n_ov_heads", "n_qk_heads", "d_qk"))
    shapes: dict[str, tuple[int, ...]] = {
        "W_Q": (G, d, D),
        "W_K": (G, d, D),
        "b_Q": (G, D),
        "b_K": (G, D),
    }
    shapes |= {"W_V": (H, d), "W_O": (H, d), "b_V": (H,)}
    zeros = {name: torch.zeros(shape) for name, shape in shapes.items()}
    return write_checkpoint(folder, CONFIG, zeros | {"b_D": bias})


def test_metrics_by_hand() -> None:
    """Two batches of two tokens; three heads, of which one fires always and two never."""
    sums = EvaluationSums(n_ov_heads=3, output_scale=3.0)
    acts = torch.tensor([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    # Targets (0,0) and (2,0), mean (1,0), each 1 from it; errors 0 and 1.
    sums.add(acts, torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    # Targets (0,4) and (0,8), mean (0,6), each 4 from it; errors 4 and 0.
    sums.add(acts, torch.tensor([[0.0, 2.0], [0.0, 8.0]]), torch.tensor([[0.0, 4.0], [0.0, 8.0]]))
    sums.add(acts[:0], torch.zeros(0, 2), torch.zeros(0, 2))
    # Mean target of all (0.5, 3): Σ‖y‖² − 4·‖mean‖² = 84 − 37 = 47.
    assert sums.metrics() == {
        "loss": pytest.approx(9 * 5 / 4),
        "mse": pytest.approx(5 / 4),
        "fvu": pytest.approx(5 / 47),
        "explained_variance": pytest.approx(((1 - 1 / 2) + (1 - 4 / 8)) / 2),
        "explained_variance_legacy": pytest.approx(1 - (0 + 1 + 1 + 0) / 4),
        "cosine": pytest.approx(3 / 4),  # 0 for the zero target
        "l0": 1.0,
        "dead_fraction": pytest.approx(2 / 3),
        "dense_fraction": pytest.approx(1 / 3),
        "targets": 4,
    }


def test_metrics_that_do_not_exist_are_an_error() -> None:
    sums = EvaluationSums(1, 1.0)
    with pytest.raises(LorsaError, match="no two different unmasked targets"):
        sums.metrics()
    sums.add(torch.zeros(2, 1), torch.zeros(2, 1), torch.ones(2, 1))
    with pytest.raises(LorsaError, match="no two different unmasked targets"):
        sums.metrics()


def test_predicting_the_mean_has_fvu_one(sealed: Path, tmp_path: Path) -> None:
    with ActivationSet(sealed) as activations:
        held_out = activations.held_out
        part = activations.read(held_out.start, len(held_out))
        mean = torch.from_numpy(part.mhsa_output[part.mask]).double().mean(0).float()
        lorsa = Lorsa.load(_checkpoint(tmp_path / "c", mean * 2.0))
        metrics = evaluate(lorsa, activations)
    assert metrics["fvu"] == pytest.approx(1.0, rel=1e-5)
    assert metrics["targets"] == part.mask.sum()
    assert (metrics["l0"], metrics["dead_fraction"]) == (0.0, 1.0)


def test_the_command_prints_one_line_of_json(
    sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = _checkpoint(tmp_path / "c", torch.zeros(48))
    assert main(["--checkpoint", str(checkpoint), "--set", str(sealed)]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out)["fvu"] >= 1.0


def test_a_set_of_another_width_is_refused(
    sealed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(CONFIG, "d_model", 32)
    checkpoint = _checkpoint(tmp_path / "c", torch.zeros(32))
    assert main(["--checkpoint", str(checkpoint), "--set", str(sealed)]) == 1
    assert "has d_model 32, the set 48" in capsys.readouterr().err


def test_a_set_of_the_other_hook_convention_is_refused(
    sealed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(CONFIG, "hook_convention", "transformer_lens.ln1.hook_normalized")
    checkpoint = _checkpoint(tmp_path / "c", torch.zeros(48))
    assert main(["--checkpoint", str(checkpoint), "--set", str(sealed)]) == 1
    assert "the set holds transformers.self_attn" in capsys.readouterr().err
