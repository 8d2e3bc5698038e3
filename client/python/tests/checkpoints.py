"""Checkpoint folders as the trainer writes them, and the golden files of the mathematics."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lorsa.files import sha256_of

FIXTURES = Path(
    os.environ.get("LORSA_FIXTURES", Path(__file__).parents[3] / "tests" / "data" / "fixtures")
)
GOLDEN_NAMES = sorted(path.stem for path in (FIXTURES / "lorsa_math").glob("*.json"))
QK_NORM_EPSILON = 1e-6  # of the golden files


def golden_config(about: dict[str, Any], selection: str) -> dict[str, Any]:
    """config.json of a checkpoint with the golden file's parameters."""
    keys = ("factor", "low_freq_factor", "high_freq_factor", "original_context")
    ntk = about["ntk"] and dict(zip(keys, about["ntk"], strict=True))
    rope = {
        "base": about["rotary_base"],
        "rotary_dim": about["rotary_dim"],
        "adjacent_pairs": about["adjacent"],
        "ntk_by_parts": ntk,
    }
    return {
        "format": "lorsa-checkpoint",
        "format_version": 1,
        "d_model": about["d_model"],
        "n_ov_heads": about["n_ov"],
        "n_qk_heads": about["n_qk"],
        "d_qk": about["d_qk"],
        "top_k": about["k"],
        "selection": selection,
        "select_by_decoder_norm": about["decoder_norm"],
        "decoder_bias": about["decoder_bias"],
        "attn_scale": about["attn_scale"],
        "rope": rope if about["rope"] else None,
        "qk_norm": {"epsilon": QK_NORM_EPSILON} if about["qk_norm"] else None,
        "context": about["n_ctx"],
        "input_scale": 1.0,
        "output_scale": 1.0,
        "hook_convention": "transformers.self_attn",
        "model": {"name": "random", "revision": "0"},
        "layer": 0,
    }


def golden(name: str) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Tensor]]:
    """What a golden file is about, all its tensors, and those that are parameters."""
    path = FIXTURES / "lorsa_math" / name
    tensors = load_file(path.with_suffix(".safetensors"))
    parameters = {k.removeprefix("param."): v for k, v in tensors.items() if k.startswith("param.")}
    return json.loads(path.with_suffix(".json").read_text()), tensors, parameters


def write_checkpoint(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "lorsa.safetensors")
    seal(folder)
    return folder


def seal(folder: Path) -> None:
    """Writes the manifest of what the folder holds; the state files are left out of the folder."""
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
        for name in ("config.json", "lorsa.safetensors")
    }
    absent = {"bytes": 1, "sha256": "0" * 64}
    manifest = {
        "created": "2026-01-02T03:04:05Z",
        "environment": {"threads": 2},
        "files": files | {"state.json": absent, "state.safetensors": absent},
        "format": "lorsa-checkpoint-manifest",
        "format_version": 1,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


_ORIGINAL = {
    "device": "cuda",
    "dtype": "torch.float32",
    "virtual_kv_num": 0,
    "use_z_relu": False,
    "layer": 3,
    "model_name": "EleutherAI/pythia-160m",
    "mode": "top_k",
    "positional_embedding_type": "rotary",
    "rotary_scale": 1,
    "d_ov_head": 1,
}


def write_original(folder: Path, **changes: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A folder of the paper's own code with a golden file's parameters; what that file is about,
    and its tensors.
    """
    about, tensors, parameters = golden("pythia_partial_rope")
    root = math.sqrt(about["d_model"])
    config = _ORIGINAL | {
        "d_qk_head": about["d_qk"],
        "n_qk_heads": about["n_qk"],
        "n_ov_heads": about["n_ov"],
        "n_ctx": about["n_ctx"],
        "top_k": about["k"],
        "avg_norm": {"in": root / 4.0, "out": root / 0.5},
        "d_model": about["d_model"],
        "attn_scale": about["attn_scale"],
        "rotary_dim": about["rotary_dim"],
        "rotary_base": int(about["rotary_base"]),
        "rotary_adjacent_pairs": about["adjacent"],
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config | changes))
    theirs = dict(parameters)
    theirs |= {"W_V": theirs["W_V"][:, :, None], "W_O": theirs["W_O"][:, None, :]}
    theirs |= {"b_V": theirs["b_V"][:, None], "b_O": theirs.pop("b_D")}
    theirs |= {"mask": torch.ones(4, 4, dtype=torch.bool), "IGNORE": torch.tensor(-math.inf)}
    save_file({k: v.contiguous() for k, v in theirs.items()}, folder / "final.safetensors")
    return about, tensors
