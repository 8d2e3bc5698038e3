"""Rotary position embedding in torch; angles in fp32."""

from __future__ import annotations

import torch
from torch import Tensor

from lorsa.geometry import Rope


def angles(rope: Rope, positions: int, device: torch.device | None = None) -> Tensor:
    """Angle of each pair of dimensions at positions 0, 1, …: fp32 [positions, rotary_dim / 2]."""
    frequencies = torch.from_numpy(rope.inverse_frequencies()).to(device)
    return torch.outer(torch.arange(positions, dtype=torch.float32, device=device), frequencies)


def rotate(x: Tensor, rope: Rope) -> Tensor:
    """Rotates the first rotary_dim dimensions of `x`, [..., positions, d_head], from position 0.

    In fp32 or wider, rounded once to the type of `x`.
    """
    turns = angles(rope, x.shape[-2], x.device)
    cos, sin = turns.cos(), turns.sin()  # fp32: products with bf16 are fp32
    turning, rest = x[..., : rope.rotary_dim], x[..., rope.rotary_dim :]
    if rope.adjacent_pairs:
        first, second = turning[..., 0::2], turning[..., 1::2]
    else:
        first, second = turning.chunk(2, dim=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    joined = (
        torch.stack(turned, dim=-1).flatten(-2) if rope.adjacent_pairs else torch.cat(turned, -1)
    )
    return torch.cat((joined.to(x.dtype), rest), dim=-1)
