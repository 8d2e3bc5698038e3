"""Llamascopium's Lorsa folders (llamascopium 2.0, `LowRankSparseAttention.from_pretrained`):
config.json and sae_weights.safetensors.

Written are weights with the activation scales folded in (`norm_activation: "inference"`), so that
their encode and decode take and return activations in the model's own units.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

import lorsa
from lorsa.errors import LorsaError
from lorsa.files import new_folder
from lorsa.formats.foreign_files import (
    config_fields,
    find_weights,
    read_tensors,
    refuse,
    take_parameters,
)
from lorsa.formats.rotary_tables import rotary_tables, take_rotary_tables
from lorsa.formats.weights import LorsaWeights, fold_scales
from lorsa.geometry import NtkByParts, QkNorm, Rope
from lorsa.lorsa_config import LorsaConfig
from lorsa.manifest import TRANSFORMER_LENS, TRANSFORMERS
from lorsa.strict_json import Fields

WEIGHTS = "sae_weights.safetensors"
_NORM = "dataset_average_activation_norm."
NORM_TOLERANCE = 0.02  # of sqrt(d_model): a normalised vector's norm, but for the norm's epsilon

_DEFAULTS: dict[str, Any] = {
    "use_decoder_bias": True,
    "sparsity_include_decoder_norm": True,
    "use_triton_kernel": False,
    "sparsity_threshold_for_triton_spmm_kernel": 0.996,
    "jumprelu_threshold_window": 2.0,
    "positional_embedding_type": "rotary",
    "rotary_base": 10000,
    "rotary_adjacent_pairs": True,
    "rotary_scale": 1,
    "use_NTK_by_parts_rope": False,
    "NTK_by_parts_factor": 1.0,
    "NTK_by_parts_low_freq_factor": 1.0,
    "NTK_by_parts_high_freq_factor": 1.0,
    "old_context_len": 2048,
    "attn_scale": None,
    "use_post_qk_ln": False,
    "normalization_type": None,
    "eps": 1e-6,
}
_WITHOUT_MEANING_HERE = (
    "use_triton_kernel",
    "sparsity_threshold_for_triton_spmm_kernel",
    "jumprelu_threshold_window",
)


@dataclass(frozen=True)
class HookPoints:
    """Names of the activations in their batches."""

    input: str
    output: str

    @staticmethod
    def of_layer(layer: int, convention: str) -> HookPoints:
        """TransformerLens' names where it has them. It has none for the input after the gain."""
        block = f"blocks.{layer}"
        before_gain = convention == TRANSFORMER_LENS
        hook = f"{block}.ln1.hook_normalized" if before_gain else f"{block}.attn.input"
        return HookPoints(hook, f"{block}.hook_attn_out")

    @property
    def layer(self) -> int:
        """The layer that the names name, or 0."""
        match = re.search(r"\.(\d+)\.", self.input)
        return int(match[1]) if match else 0


def export(weights: LorsaWeights, out: Path, hooks: HookPoints | None = None) -> None:
    """Writes the folder; LorsaError naming what Llamascopium cannot express."""
    _refuse_inexpressible(weights)
    folded = fold_scales(weights)
    config = weights.config
    tensors = folded.tensors | _buffers(config)
    metadata = {
        "producer": f"lorsa {lorsa.__version__}",
        "model": config.model_name,
        "model_revision": config.model_revision,
        "hook_convention": config.hook_convention,
    }
    hooks = hooks or HookPoints.of_layer(config.layer, config.hook_convention)
    with new_folder(out) as folder:
        content = json.dumps(_their_config(config, hooks), indent=4)
        (folder / "config.json").write_text(content + "\n")
        save_file(tensors, folder / WEIGHTS, metadata)


def _refuse_inexpressible(weights: LorsaWeights) -> None:
    config = weights.config
    if config.selection != "relu":
        raise LorsaError(
            "Llamascopium keeps positive activations only: a Lorsa with selection 'signed' cannot "
            "be exported to it."
        )
    if config.rope is not None and config.rope.base != int(config.rope.base):
        raise LorsaError(
            f"Llamascopium's rotary_base is an integer: rope.base {config.rope.base} cannot be "
            "exported to it."
        )
    zero = int((weights.tensors["W_O"] == 0).all(-1).sum())
    if zero and config.select_by_decoder_norm:
        raise LorsaError(
            f"{zero} heads have a W_O of zeros. Llamascopium divides by its norm and would return "
            "NaN: such a Lorsa cannot be exported to it."
        )


def _buffers(config: LorsaConfig) -> dict[str, Tensor]:
    """What their module keeps besides parameters."""
    shape = (config.context, config.context)
    mask = {"mask": torch.ones(shape, dtype=torch.bool).tril(), "IGNORE": torch.tensor(-math.inf)}
    return mask | ({} if config.rope is None else rotary_tables(config.rope, config.context))


def _their_config(config: LorsaConfig, hooks: HookPoints) -> dict[str, Any]:
    rope, qk_norm = config.rope, config.qk_norm
    ntk = None if rope is None else rope.ntk_by_parts
    value = _DEFAULTS | {
        "sae_type": "lorsa",
        "d_model": config.d_model,
        "expansion_factor": _expansion_factor(config.n_ov_heads, config.d_model),
        "use_decoder_bias": config.decoder_bias,
        "act_fn": "topk",
        "norm_activation": "inference",
        "sparsity_include_decoder_norm": config.select_by_decoder_norm,
        "top_k": config.top_k,
        "hook_point_in": hooks.input,
        "hook_point_out": hooks.output,
        "n_qk_heads": config.n_qk_heads,
        "d_qk_head": config.d_qk,
        "positional_embedding_type": "none" if rope is None else "rotary",
        "rotary_dim": config.d_qk if rope is None else rope.rotary_dim,
        "n_ctx": config.context,
        "attn_scale": config.attn_scale,
        "use_NTK_by_parts_rope": ntk is not None,
    }
    if rope is not None:
        value |= {"rotary_base": int(rope.base), "rotary_adjacent_pairs": rope.adjacent_pairs}
    if ntk is not None:
        value |= {
            "NTK_by_parts_factor": ntk.factor,
            "NTK_by_parts_low_freq_factor": ntk.low_freq_factor,
            "NTK_by_parts_high_freq_factor": ntk.high_freq_factor,
            "old_context_len": ntk.original_context,
        }
    if qk_norm is not None:
        value |= {"use_post_qk_ln": True, "normalization_type": "RMS", "eps": qk_norm.epsilon}
    return value


def _expansion_factor(n_ov_heads: int, d_model: int) -> float:
    """The number from which they get n_ov_heads back, as int(d_model * expansion_factor)."""
    factor = n_ov_heads / d_model
    while int(d_model * factor) < n_ov_heads:
        factor = math.nextafter(factor, math.inf)
    return factor


@dataclass(frozen=True)
class Folder:
    """A folder of theirs as it was read: one question is left, its activation scales."""

    config: LorsaConfig  # with scales 1
    tensors: dict[str, Tensor]
    where: str
    says_folded: bool  # what config.json says
    norms: tuple[float, float] | None  # dataset-wise norms of input and output, if they are known
    notes: tuple[str, ...]

    def weights(self, folded: bool) -> LorsaWeights:
        """The Lorsa, if the scales are folded into the weights, or if they are not."""
        if folded:
            return LorsaWeights(self.config, self.tensors)
        if self.norms is None:
            raise LorsaError(
                f"{self.where} holds no {_NORM}*, which weights that are not folded need."
            )
        root = math.sqrt(self.config.d_model)
        scales = {"input_scale": root / self.norms[0], "output_scale": root / self.norms[1]}
        return LorsaWeights(self.config, self.tensors).changed({}, **scales)


def read(folder: Path, convention: str | None = None) -> Folder:
    """Reads their folder. `convention`: what the Lorsa was trained on; None finds it out.

    LorsaError for a configuration that a checkpoint cannot express.
    """
    path = find_weights(folder, WEIGHTS)
    tensors, where = read_tensors(path), str(path)
    with config_fields(folder, _DEFAULTS) as fields:
        config, hooks, says_folded = _our_config(fields)
    norms = _take_norms(tensors, hooks)
    take_rotary_tables(tensors, config.rope, where)
    for name in ("mask", "IGNORE"):
        tensors.pop(name, None)
    parameters = take_parameters(tensors, config.parameter_shapes(), where)
    if tensors:
        raise refuse(where, f"it holds {', '.join(sorted(tensors))}")
    convention, notes = _convention(convention, config, hooks, norms)
    unnamed = LorsaWeights(config, parameters).changed({}, hook_convention=convention)
    return Folder(unnamed.config, parameters, where, says_folded, norms, notes)


def _our_config(fields: Fields) -> tuple[LorsaConfig, HookPoints, bool]:
    where = fields.where
    if fields.text("sae_type") != "lorsa":
        raise LorsaError(f"{where}: sae_type is not 'lorsa'.")
    for key in _WITHOUT_MEANING_HERE:
        fields.any(key)
    if (act_fn := fields.text("act_fn")) != "topk":
        raise refuse(where, f"act_fn is {act_fn!r}, not 'topk'")
    normalized = fields.text("norm_activation")
    if normalized not in ("dataset-wise", "inference"):
        raise refuse(where, f"norm_activation is {normalized!r}")
    if fields.integer("rotary_scale", 1) != 1:
        raise refuse(where, "rotary_scale is not 1")
    hooks = HookPoints(fields.text("hook_point_in"), fields.text("hook_point_out"))
    d_model, d_qk = fields.integer("d_model", 1, 65536), fields.integer("d_qk_head", 1, 1024)
    config = LorsaConfig(
        d_model=d_model,
        n_ov_heads=int(d_model * fields.number("expansion_factor")),
        n_qk_heads=fields.integer("n_qk_heads", 1, 65536),
        d_qk=d_qk,
        top_k=fields.integer("top_k", 1),
        selection="relu",
        select_by_decoder_norm=fields.boolean("sparsity_include_decoder_norm"),
        decoder_bias=fields.boolean("use_decoder_bias"),
        attn_scale=fields.number_or("attn_scale", math.sqrt(d_qk)),
        rope=_our_rope(fields),
        qk_norm=_our_qk_norm(fields, where),
        context=fields.integer("n_ctx", 1),
        layer=hooks.layer,
    )
    config.validate(where)
    return config, hooks, normalized == "inference"


def _our_rope(fields: Fields) -> Rope | None:
    kind = fields.choice("positional_embedding_type", ("rotary", "none"))
    ntk = NtkByParts(
        factor=fields.number("NTK_by_parts_factor"),
        low_freq_factor=fields.number("NTK_by_parts_low_freq_factor"),
        high_freq_factor=fields.number("NTK_by_parts_high_freq_factor"),
        original_context=fields.integer("old_context_len", 1),
    )
    rope = Rope(
        base=float(fields.integer("rotary_base", 2)),
        rotary_dim=fields.integer("rotary_dim", 1),
        adjacent_pairs=fields.boolean("rotary_adjacent_pairs"),
        ntk_by_parts=ntk if fields.boolean("use_NTK_by_parts_rope") else None,
    )
    return rope if kind == "rotary" else None


def _our_qk_norm(fields: Fields, where: str) -> QkNorm | None:
    kind, epsilon = fields.any("normalization_type"), fields.number("eps")
    if not fields.boolean("use_post_qk_ln"):
        return None
    if kind != "RMS":
        raise refuse(where, f"normalization_type is {kind!r}")
    return QkNorm(epsilon)


def _take_norms(tensors: dict[str, Tensor], hooks: HookPoints) -> tuple[float, float] | None:
    """They write uninitialised memory where there is no norm: such numbers count as absent."""
    found = [
        float(tensors.pop(_NORM + hook, torch.tensor(math.nan)))
        for hook in (hooks.input, hooks.output)
    ]
    is_plausible = all(math.isfinite(norm) and 1e-6 < norm < 1e9 for norm in found)
    return (found[0], found[1]) if is_plausible else None


def _convention(
    asked: str | None, config: LorsaConfig, hooks: HookPoints, norms: tuple[float, float] | None
) -> tuple[str, tuple[str, ...]]:
    """By the mean norm of the inputs if it is known: before the gain it is sqrt(d_model)."""
    if asked is not None:
        return asked, ()
    root = math.sqrt(config.d_model)
    if norms is None:
        raise LorsaError(
            f"The folder does not tell whether {hooks.input} was taken before or after the norm's "
            "gain: pass --hooks."
        )
    if abs(norms[0] - root) <= NORM_TOLERANCE * root:
        return TRANSFORMER_LENS, (f"Trained on inputs before the norm's gain ({hooks.input}).",)
    return TRANSFORMERS, (
        f"Trained on inputs after the norm's gain: {hooks.input} has a mean norm of "
        f"{norms[0]:.3g}, not sqrt(d_model) = {root:.3g}.",
    )
