"""Rotary position embedding in torch; angles in fp32."""

from __future__ import annotations

import torch
from torch import Tensor

from lorsa.geometry import Rope


def rotate(x: Tensor, rope: Rope) -> Tensor:
    """Rotates the first rotary_dim dimensions of `x`, [..., positions, d_head], from position 0."""
    frequencies = torch.from_numpy(rope.inverse_frequencies()).to(x.device)
    positions = torch.arange(x.shape[-2], dtype=torch.float32, device=x.device)
    angles = torch.outer(positions, frequencies)  # [positions, rotary_dim / 2]
    cos, sin = angles.cos(), angles.sin()
    turning, rest = x[..., : rope.rotary_dim], x[..., rope.rotary_dim :]
    if rope.adjacent_pairs:
        first, second = turning[..., 0::2], turning[..., 1::2]
    else:
        first, second = turning.chunk(2, dim=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    joined = (
        torch.stack(turned, dim=-1).flatten(-2) if rope.adjacent_pairs else torch.cat(turned, -1)
    )
    return torch.cat((joined, rest), dim=-1)
