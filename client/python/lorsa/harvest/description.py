"""What a layer computes, in the manifest's words; what those words cannot say is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from lorsa.errors import LorsaError
from lorsa.geometry import Attention, NtkByParts, QkNorm, Rope
from lorsa.harvest.families import Family

_FREQUENCY_TOLERANCE = 1e-4  # relative; fp32 rounding of the powers is below 1e-5


def describe(family: Family, model: Any, layer: int, context: int) -> Attention:
    """Geometry of a layer; LorsaError if a sequence of `context` positions would differ from it."""
    config = model.config
    _check_range(config, layer, context)
    attention: Any = family.attention(family.blocks(model)[layer])
    window = family.sliding_window(config, attention)
    if window is not None and window < context:
        raise LorsaError(
            f"Layer {layer} has a sliding window of {window} tokens, shorter than --context "
            f"{context}: pass --context {window} or less."
        )
    if getattr(config, "attn_logit_softcapping", None) is not None:
        raise LorsaError("The model caps its attention scores (attn_logit_softcapping).")
    n_heads = config.num_attention_heads
    weights = family.projections(attention)
    d_head = weights["q_proj.weight"].shape[0] // n_heads
    return Attention(
        n_heads=n_heads,
        n_kv_heads=weights["k_proj.weight"].shape[0] // d_head,
        d_head=d_head,
        attn_scale=1.0 / float(attention.scaling),
        rope=_rope(config, family.rotary(model)),
        qk_norm=_qk_norm(attention),
    )


def _check_range(config: Any, layer: int, context: int) -> None:
    if not 0 <= layer < config.num_hidden_layers:
        raise LorsaError(f"--layer {layer} is not one of 0 to {config.num_hidden_layers - 1}.")
    if context > config.max_position_embeddings:
        raise LorsaError(
            f"--context {context} is longer than the model's {config.max_position_embeddings} "
            "positions."
        )


def _qk_norm(attention: Any) -> QkNorm | None:
    norm = getattr(attention, "q_norm", None)
    return None if norm is None else QkNorm(epsilon=float(norm.variance_epsilon))


def _rope(config: Any, rotary: Any | None) -> Rope | None:
    if rotary is None:
        return None
    parameters = config.rope_parameters
    kind = parameters.get("rope_type")
    if kind not in ("default", "llama3"):
        raise LorsaError(
            f"The model scales its rotary embedding by {kind!r}, which a set cannot describe; "
            "supported are 'default' and 'llama3'."
        )
    rope = Rope(
        base=float(parameters["rope_theta"]),
        rotary_dim=2 * len(rotary.inv_freq),
        adjacent_pairs=False,
        ntk_by_parts=_ntk_by_parts(parameters) if kind == "llama3" else None,
    )
    frequencies = rotary.inv_freq.float().cpu().numpy()
    same = np.allclose(frequencies, rope.inverse_frequencies(), rtol=_FREQUENCY_TOLERANCE, atol=0)
    if not same or rotary.attention_scaling != 1.0:
        raise LorsaError("The model's rotary angles differ from those its configuration describes.")
    return rope


def _ntk_by_parts(parameters: dict[str, Any]) -> NtkByParts:
    return NtkByParts(
        factor=float(parameters["factor"]),
        low_freq_factor=float(parameters["low_freq_factor"]),
        high_freq_factor=float(parameters["high_freq_factor"]),
        original_context=int(parameters["original_max_position_embeddings"]),
    )
