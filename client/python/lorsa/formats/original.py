"""Checkpoints of the code that came with the paper (github.com/OpenMOSS/Lorsa before it moved into
Llamascopium): config.json and final.safetensors, which its final.pth has to be converted to.

Its W_V is [H, d, 1], its W_O [H, 1, d]; a head is chosen by |z|·‖W_O‖ unless `use_z_relu`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from torch import Tensor

from lorsa.errors import LorsaError
from lorsa.formats.foreign_files import (
    config_fields,
    find_weights,
    read_tensors,
    refuse,
    take_parameters,
)
from lorsa.formats.rotary_tables import take_rotary_tables
from lorsa.formats.weights import LorsaWeights
from lorsa.geometry import Rope
from lorsa.lorsa_config import LorsaConfig
from lorsa.manifest import TRANSFORMER_LENS
from lorsa.strict_json import Fields

WEIGHTS = "final.safetensors"

_DEFAULTS: dict[str, Any] = {
    "device": "cuda",
    "dtype": "torch.float32",
    "virtual_kv_num": 0,
    "use_z_relu": False,
    "n_ctx": 256,
    "layer": None,
    "model_name": None,
    "attn_scale": None,
    "positional_embedding_type": "rotary",
    "rotary_scale": 1,
    "rotary_dim": None,
    "rotary_base": 10000,
    "rotary_adjacent_pairs": False,
}


def read(folder: Path, convention: str = TRANSFORMER_LENS) -> tuple[LorsaWeights, tuple[str, ...]]:
    """The Lorsa and what the user should know; LorsaError for what cannot be expressed.

    `convention`: what it was trained on; the code itself trains on ln1.hook_normalized.
    """
    path = find_weights(folder, WEIGHTS)
    with config_fields(folder, _DEFAULTS) as fields:
        use_z_relu, config = _our_config(fields, convention)
    tensors = read_tensors(path)
    take_rotary_tables(tensors, config.rope, str(path))
    for name in ("mask", "IGNORE"):
        tensors.pop(name, None)
    parameters = _our_parameters(tensors, config, str(path))
    if tensors:
        raise refuse(str(path), f"it holds {', '.join(sorted(tensors))}")
    return LorsaWeights(config, parameters), _RELU_NOTE if use_z_relu else ()


_RELU_NOTE = (
    "At a token where fewer than top_k heads are positive, the original code keeps every head, "
    "negative ones too; a Lorsa checkpoint keeps the positive ones.",
)


def _our_config(fields: Fields, convention: str) -> tuple[bool, LorsaConfig]:
    where = fields.where
    fields.text("device"), fields.text("dtype")
    if (mode := fields.text("mode")) != "top_k":
        raise refuse(where, f"mode is {mode!r}, not 'top_k'")
    for key, expected in (("d_ov_head", 1), ("virtual_kv_num", 0), ("rotary_scale", 1)):
        if (value := fields.any(key)) != expected:
            raise refuse(where, f"{key} is {value!r}, not {expected}")
    d_model, d_qk = fields.integer("d_model", 1, 65536), fields.integer("d_qk_head", 1, 1024)
    input_scale, output_scale = fields.object("avg_norm", lambda v, w: _scales(v, w, d_model))
    use_z_relu = fields.boolean("use_z_relu")
    config = LorsaConfig(
        d_model=d_model,
        n_ov_heads=fields.integer("n_ov_heads", 1),
        n_qk_heads=fields.integer("n_qk_heads", 1),
        d_qk=d_qk,
        top_k=fields.integer("top_k", 1),
        selection="relu" if use_z_relu else "signed",
        select_by_decoder_norm=True,
        decoder_bias=True,
        attn_scale=fields.number_or("attn_scale", math.sqrt(d_qk)),
        rope=_our_rope(fields),
        qk_norm=None,
        input_scale=input_scale,
        output_scale=output_scale,
        context=fields.integer("n_ctx", 1),
        hook_convention=convention,
        model_name=fields.any("model_name") or "",
        layer=fields.any("layer") or 0,
    )
    config.validate(where)
    return use_z_relu, config


def _scales(value: Any, where: str, d_model: int) -> tuple[float, float]:
    with Fields(value, where) as norms:
        root = math.sqrt(d_model)
        return root / norms.number("in"), root / norms.number("out")


def _our_rope(fields: Fields) -> Rope | None:
    kind = fields.text("positional_embedding_type")
    base, dim = fields.any("rotary_base"), fields.any("rotary_dim")
    adjacent = fields.boolean("rotary_adjacent_pairs")
    if kind != "rotary":
        return None
    if not isinstance(dim, int) or not isinstance(base, (int, float)):
        raise LorsaError(f"{fields.where}: rotary_dim and rotary_base must be numbers.")
    return Rope(base=float(base), rotary_dim=dim, adjacent_pairs=adjacent, ntk_by_parts=None)


def _our_parameters(
    tensors: dict[str, Tensor], config: LorsaConfig, where: str
) -> dict[str, Tensor]:
    """Pops the parameters: the OV dimension of 1 goes, and b_O is b_D."""
    H, d = config.n_ov_heads, config.d_model
    ours = config.parameter_shapes()
    theirs = {name: shape for name, shape in ours.items() if name != "b_D"}
    theirs |= {"W_V": (H, d, 1), "W_O": (H, 1, d), "b_V": (H, 1), "b_O": (d,)}
    taken = take_parameters(tensors, theirs, where)
    taken["b_D"] = taken.pop("b_O")
    return {name: tensor.reshape(ours[name]) for name, tensor in taken.items()}
