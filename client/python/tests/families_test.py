"""For each model family: attention recomputed from the captured input, with nothing but the
exported weights and the manifest, gives the captured output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tiny_models import CONFIGURATIONS, save_model

from lorsa import ActivationSet
from lorsa.manifest import HOOK_CONVENTIONS, TRANSFORMER_LENS

Array = NDArray[Any]


@pytest.mark.parametrize("hook_convention", HOOK_CONVENTIONS)
@pytest.mark.parametrize("family", CONFIGURATIONS)
def test_exported_weights_reproduce_the_captured_output(
    family: str, hook_convention: str, tmp_path: Path, run_harvest: Callable[..., list[Path]]
) -> None:
    """Under TransformerLens' convention the weights hold the norm's gain and bias."""
    model = save_model(tmp_path / "model", CONFIGURATIONS[family])
    changes = {"context": 32, "tokens": 320, "hook_convention": hook_convention}
    (folder,) = run_harvest(tmp_path / "set", model=model, **changes)

    manifest = json.loads((folder / "manifest.json").read_text())
    weights = {
        k: v.astype(np.float64) for k, v in load_file(folder / "attention.safetensors").items()
    }
    with h5py.File(folder / "shard-00000.h5") as shard:
        x, y = shard["mhsa_input"][()], shard["mhsa_output"][()]

    assert np.abs(_attention(x, weights, manifest["attention"]) - y).max() <= 1e-4 * np.abs(y).max()
    assert np.std(y) > 0.1  # an attention worth comparing


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "gpt2"])
def test_the_gain_and_bias_lead_from_one_hook_convention_to_the_other(
    family: str, tmp_path: Path, run_harvest: Callable[..., list[Path]]
) -> None:
    model = save_model(tmp_path / "model", CONFIGURATIONS[family])
    (after,) = run_harvest(tmp_path / "after", model=model)
    (before,) = run_harvest(tmp_path / "before", model=model, hook_convention=TRANSFORMER_LENS)
    weights = load_file(before / "attention.safetensors")
    with ActivationSet(after) as ours, ActivationSet(before) as theirs:
        assert theirs.manifest.description.hook_convention == TRANSFORMER_LENS
        x, n = ours.read(0, 20), theirs.read(0, 20)
    np.testing.assert_allclose(np.linalg.norm(n.mhsa_input, axis=-1), np.sqrt(48), rtol=1e-3)
    mapped = n.mhsa_input * weights["input_norm.weight"] + weights.get("input_norm.bias", 0)
    np.testing.assert_allclose(mapped, x.mhsa_input, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(n.mhsa_output, x.mhsa_output)


def test_what_each_family_adds_is_exported(
    tmp_path: Path, run_harvest: Callable[..., list[Path]]
) -> None:
    seen = {}
    for family, config in CONFIGURATIONS.items():
        model = save_model(tmp_path / family / "model", config)
        (folder,) = run_harvest(tmp_path / family / "set", model=model)
        attention = json.loads((folder / "manifest.json").read_text())["attention"]
        seen[family] = (attention, set(load_file(folder / "attention.safetensors")))

    projections = [f"{part}_proj" for part in "qkvo"]
    weights = {f"{part}.weight" for part in projections} | {"input_norm.weight"}
    biases = {f"{part}.bias" for part in projections}
    assert seen["llama"][1] == weights | biases
    assert seen["llama_rope_scaling"][1] == weights
    assert seen["qwen2"][1] == weights | biases - {"o_proj.bias"}
    assert seen["qwen3"][1] == weights | {"q_norm.weight", "k_norm.weight"}
    assert seen["gpt_neox"][1] == seen["gpt2"][1] == weights | biases | {"input_norm.bias"}

    assert seen["llama"][0]["n_kv_heads"] == 2
    assert seen["llama_rope_scaling"][0]["rope"]["ntk_by_parts"]["original_context"] == 16
    assert seen["qwen3"][0] | {"rope": None} == {
        "n_heads": 4,
        "n_kv_heads": 2,
        "d_head": 20,
        "attn_scale": pytest.approx(20**0.5),
        "rope": None,
        "qk_norm": {"epsilon": pytest.approx(1e-6)},
    }
    assert seen["gpt_neox"][0]["rope"]["rotary_dim"] == 6  # half of d_head 12
    assert seen["gpt2"][0]["rope"] is None
    assert seen["gpt2"][0]["attn_scale"] == pytest.approx(2 * 12**0.5)  # layer 1: divided by 2 more


def _attention(x: Array, weights: dict[str, Array], about: dict[str, Any]) -> Array:
    """Written from docs/activation_format.md alone, in double precision."""
    q, k, v = (_project(x, part, weights, about["d_head"]) for part in "qkv")
    if about["qk_norm"]:
        q = _rms(q, about["qk_norm"]["epsilon"]) * weights["q_norm.weight"]
        k = _rms(k, about["qk_norm"]["epsilon"]) * weights["k_norm.weight"]
    if about["rope"]:
        q, k = _rope(q, about["rope"]), _rope(k, about["rope"])
    group = about["n_heads"] // about["n_kv_heads"]
    out = np.zeros((*x.shape[:2], about["n_heads"], about["d_head"]))
    for head in range(about["n_heads"]):
        scores = q[:, :, head] @ k[:, :, head // group].swapaxes(1, 2) / about["attn_scale"]
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        pattern = np.exp(scores - scores.max(-1, keepdims=True))
        pattern /= pattern.sum(-1, keepdims=True)
        out[:, :, head] = pattern @ v[:, :, head // group]
    flat = out.reshape(*x.shape[:2], -1)
    result: Array = flat @ weights["o_proj.weight"].T + weights.get("o_proj.bias", 0.0)
    return result


def _project(x: Array, part: str, weights: dict[str, Array], d_head: int) -> Array:
    flat: Array = x @ weights[f"{part}_proj.weight"].T + weights.get(f"{part}_proj.bias", 0.0)
    return flat.reshape(*x.shape[:2], -1, d_head)


def _rms(x: Array, epsilon: float) -> Array:
    scale: Array = np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
    return x / scale


def _rope(x: Array, rope: dict[str, Any]) -> Array:
    half = rope["rotary_dim"] // 2
    frequencies = rope["base"] ** (-np.arange(half) / half)
    if ntk := rope["ntk_by_parts"]:
        turns = ntk["original_context"] * frequencies / (2 * np.pi)  # within the original context
        low, high = ntk["low_freq_factor"], ntk["high_freq_factor"]
        keep = np.clip((turns - low) / (high - low), 0, 1)
        frequencies = frequencies * (keep + (1 - keep) / ntk["factor"])
    angles = np.arange(x.shape[1])[:, None, None] * frequencies
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)
