"""Small activation sets with a real attention layer behind them, for tests across processes."""

from __future__ import annotations

import json
import pathlib

import h5py
import numpy as np
from safetensors.numpy import save_file

N_HEADS, N_KV_HEADS, D_HEAD = 2, 1, 16
D_MODEL = 32
CONTEXT = 32


def rotate(x: np.ndarray, base: float) -> np.ndarray:
    """Rope on [..., positions, D_HEAD], pairs (i, i + D_HEAD/2)."""
    half = D_HEAD // 2
    angles = np.outer(np.arange(x.shape[-2]), base ** (-np.arange(half) / half))
    a, b = x[..., :half], x[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attend(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """What the layer returns for x [sequences, CONTEXT, D_MODEL]."""

    def heads(name: str, n: int) -> np.ndarray:
        y = x @ weights[name].T
        return y.reshape(*y.shape[:2], n, D_HEAD).transpose(0, 2, 1, 3)

    q = rotate(heads("q_proj.weight", N_HEADS), 10000.0)
    k = rotate(heads("k_proj.weight", N_KV_HEADS), 10000.0).repeat(N_HEADS // N_KV_HEADS, 1)
    v = heads("v_proj.weight", N_KV_HEADS).repeat(N_HEADS // N_KV_HEADS, 1)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(D_HEAD)
    scores[..., np.triu(np.ones((CONTEXT, CONTEXT), bool), 1)] = -np.inf
    pattern = np.exp(scores - scores.max(-1, keepdims=True))
    pattern /= pattern.sum(-1, keepdims=True)
    z = (pattern @ v).transpose(0, 2, 1, 3).reshape(*x.shape[:2], N_HEADS * D_HEAD)
    return z @ weights["o_proj.weight"].T


def write_set(folder: pathlib.Path, sequences: int = 300, shards: int = 2, seed: int = 0) -> None:
    """An unsealed set of fp32 shards with attention.safetensors, for `lorsa set register`."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    shapes = {
        "q_proj.weight": (N_HEADS * D_HEAD, D_MODEL),
        "k_proj.weight": (N_KV_HEADS * D_HEAD, D_MODEL),
        "v_proj.weight": (N_KV_HEADS * D_HEAD, D_MODEL),
        "o_proj.weight": (D_MODEL, N_HEADS * D_HEAD),
    }
    weights = {
        name: (random.standard_normal(shape) / np.sqrt(shape[1])).astype(np.float32)
        for name, shape in shapes.items()
    }
    save_file(weights, folder / "attention.safetensors")
    description = {
        "model": {"name": "synthetic", "revision": "1"},
        "layer": 0,
        "hook_convention": "transformers.self_attn",
        "attention": {
            "n_heads": N_HEADS,
            "n_kv_heads": N_KV_HEADS,
            "d_head": D_HEAD,
            "attn_scale": float(np.sqrt(D_HEAD)),
            "rope": {
                "base": 10000.0,
                "rotary_dim": D_HEAD,
                "adjacent_pairs": False,
                "ntk_by_parts": None,
            },
            "qk_norm": None,
        },
        "producer": "tests",
    }
    for shard, count in enumerate(np.diff(np.linspace(0, sequences, shards + 1).astype(int))):
        tokens = random.integers(1, 100, (count, CONTEXT), dtype=np.int32)
        x = random.standard_normal((count, CONTEXT, D_MODEL)).astype(np.float32)
        mask = np.ones((count, CONTEXT), np.uint8)
        mask[:, 0] = 0
        with h5py.File(folder / f"shard-{shard:05}.h5", "w") as file:
            file["mhsa_input"] = x
            file["mhsa_output"] = attend(x, weights).astype(np.float32)
            file["tokens"] = tokens
            file["mask"] = mask
            if shard == 0:
                file.attrs["lorsa_set"] = np.bytes_(json.dumps(description))
