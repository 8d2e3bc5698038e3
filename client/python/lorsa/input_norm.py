"""The norm before an attention layer, and what its gain and bias do to the layer's weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lorsa.errors import LorsaError


@dataclass(frozen=True)
class InputNorm:
    """What the norm before a layer does after normalising: n ↦ n · gain + bias."""

    gain: Tensor  # [d], fp64
    bias: Tensor  # [d], fp64; zero for an RMS norm

    @staticmethod
    def read(path: Path, d_model: int) -> InputNorm:
        """From a set's attention.safetensors; LorsaError if it does not hold the norm."""
        try:
            with safe_open(path, framework="pt") as file:
                names = [name for name in file.keys() if name.startswith("input_norm.")]  # noqa: SIM118
                tensors = {name: file.get_tensor(name) for name in names}
        except (OSError, SafetensorError) as error:
            raise LorsaError(f"{path} cannot be read as safetensors: {error}.") from error
        if "input_norm.weight" not in tensors:
            raise LorsaError(
                f"{path} holds no input_norm.weight: harvest the layer with lorsa-harvest."
            )
        norm = InputNorm.of(tensors)
        if norm.gain.shape != (d_model,) or norm.bias.shape != (d_model,):
            raise LorsaError(f"{path} is of a layer with another d_model than {d_model}.")
        return norm

    @staticmethod
    def of(tensors: Mapping[str, Tensor]) -> InputNorm:
        """From tensors named as in attention.safetensors, of which input_norm.weight is there."""
        gain = tensors["input_norm.weight"].double()
        bias = tensors.get("input_norm.bias")
        return InputNorm(gain, torch.zeros_like(gain) if bias is None else bias.double())

    def inverse(self) -> InputNorm:
        """x ↦ (x − bias) / gain, as a gain and a bias."""
        if (zeros := int((self.gain == 0).sum())) > 0:
            raise LorsaError(
                f"The norm's gain is 0 in {zeros} dimensions, which cannot be divided out."
            )
        return InputNorm(1 / self.gain, -self.bias / self.gain)


def fold_norm(weights: dict[str, Tensor], norm: InputNorm) -> dict[str, Tensor]:
    """A layer's attention.safetensors with projections that give the same for inputs before the
    norm's gain and bias; computed in double precision.
    """
    folded = dict(weights)
    for part in ("q_proj", "k_proj", "v_proj"):
        weight = weights[f"{part}.weight"].double()  # [out, d]
        folded[f"{part}.weight"] = (weight * norm.gain).float()
        shift = weight @ norm.bias
        if f"{part}.bias" in weights or shift.any():
            bias = weights.get(f"{part}.bias", torch.zeros(len(weight)))
            folded[f"{part}.bias"] = (bias.double() + shift).float()
    return folded
