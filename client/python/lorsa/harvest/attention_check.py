"""Recomputes attention from a set's own words, to refuse a model that they do not describe.

Shapes: s sequences, j positions, d d_model, h query heads, D d_head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lorsa.errors import LorsaError
from lorsa.geometry import Attention
from lorsa.harvest.capture import Captured
from lorsa.rotary import rotate

# Largest ‖recomputed − captured‖ / ‖captured‖, several times what rounding alone causes.
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 5e-2}


def check_description(
    captured: Captured, weights: dict[str, Tensor], attention: Attention, layer: int
) -> None:
    """LorsaError unless `weights` and `attention` give the captured output from its input."""
    want = captured.mhsa_output[:1].float()
    got = recompute(captured.mhsa_input[:1].float(), weights, attention)
    error = float((got - want).norm() / want.norm())
    if not error <= _TOLERANCE[captured.mhsa_output.dtype]:
        raise LorsaError(
            f"Layer {layer} computes something that the set cannot describe: attention recomputed "
            f"from its weights differs from its output by {error:.1%}."
        )


def recompute(x_sjd: Tensor, weights: dict[str, Tensor], attention: Attention) -> Tensor:
    """The attention module's output for input `x_sjd`, in fp32, [s, j, d]."""
    q_shjD = _heads(x_sjd, "q_proj", weights, attention)
    k_shjD = _heads(x_sjd, "k_proj", weights, attention)
    v_shjD = _heads(x_sjd, "v_proj", weights, attention)
    if attention.qk_norm is not None:
        epsilon = attention.qk_norm.epsilon
        q_shjD = _rms_norm(q_shjD, epsilon) * weights["q_norm.weight"]
        k_shjD = _rms_norm(k_shjD, epsilon) * weights["k_norm.weight"]
    if attention.rope is not None:
        q_shjD, k_shjD = rotate(q_shjD, attention.rope), rotate(k_shjD, attention.rope)
    scores = q_shjD @ k_shjD.transpose(-1, -2) / attention.attn_scale
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    pattern_shjj = scores.masked_fill(future, -math.inf).softmax(-1)
    z = (pattern_shjj @ v_shjD).transpose(1, 2).flatten(2)
    return torch.nn.functional.linear(z, weights["o_proj.weight"], weights.get("o_proj.bias"))


def _heads(x_sjd: Tensor, part: str, weights: dict[str, Tensor], attention: Attention) -> Tensor:
    flat = torch.nn.functional.linear(x_sjd, weights[f"{part}.weight"], weights.get(f"{part}.bias"))
    by_head = flat.view(*x_sjd.shape[:2], -1, attention.d_head).transpose(1, 2)
    return by_head.repeat_interleave(attention.n_heads // by_head.shape[1], dim=1)


def _rms_norm(x: Tensor, epsilon: float) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()
