"""A Lorsa's weights apart from any file, and the changes of units that keep what it computes.

Letters of shapes as in model.py. All products are formed in double precision and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lorsa.errors import LorsaError
from lorsa.input_norm import InputNorm
from lorsa.lorsa_config import LorsaConfig
from lorsa.manifest import TRANSFORMER_LENS


@dataclass(frozen=True)
class LorsaWeights:
    """Tensors by the names and shapes of `config.parameter_shapes()`, fp32."""

    config: LorsaConfig
    tensors: dict[str, Tensor]

    def changed(self, tensors: dict[str, Tensor], **config: object) -> LorsaWeights:
        """The same with some tensors (of any dtype) and some of the configuration replaced."""
        new = {name: tensor.float().contiguous() for name, tensor in tensors.items()}
        return LorsaWeights(replace(self.config, **config), self.tensors | new)  # type: ignore[arg-type]


def fold_scales(weights: LorsaWeights) -> LorsaWeights:
    """The same Lorsa with input_scale and output_scale 1."""
    inward, outward = weights.config.input_scale, weights.config.output_scale
    tensors = {name: weights.tensors[name].double() * inward for name in ("W_Q", "W_K", "W_V")}
    outer = [name for name in ("W_O", "b_D") if name in weights.tensors]
    tensors |= {name: weights.tensors[name].double() / outward for name in outer}
    return weights.changed(tensors, input_scale=1.0, output_scale=1.0)


def to_convention(weights: LorsaWeights, convention: str, norm: InputNorm | None) -> LorsaWeights:
    """The same function of the residual stream, for inputs under another hook convention.

    `norm` is the layer's own; LorsaError if it is needed and missing.
    """
    if convention == weights.config.hook_convention:
        return weights
    if norm is None:
        raise LorsaError(
            f"Going from {weights.config.hook_convention} to {convention} folds the norm's gain "
            "and bias: pass --norm with the attention.safetensors of a harvested set of the layer."
        )
    inner = norm if convention == TRANSFORMER_LENS else norm.inverse()
    return weights.changed(_with_input_map(weights, inner), hook_convention=convention)


def _with_input_map(weights: LorsaWeights, norm: InputNorm) -> dict[str, Tensor]:
    """Weights W', b' with x W' + b' = (x · gain + bias · input_scale) W + b for every x."""
    bias = norm.bias * weights.config.input_scale
    tensors = {}
    for part in ("Q", "K"):
        weight_GdD = weights.tensors[f"W_{part}"].double()
        tensors[f"W_{part}"] = norm.gain[:, None] * weight_GdD
        shift_GD = torch.einsum("d,gdD->gD", bias, weight_GdD)
        tensors[f"b_{part}"] = weights.tensors[f"b_{part}"].double() + shift_GD
    weight_Hd = weights.tensors["W_V"].double()
    tensors["W_V"] = weight_Hd * norm.gain
    tensors["b_V"] = weights.tensors["b_V"].double() + weight_Hd @ bias
    return tensors
