"""The rotary tables that TransformerLens and Llamascopium keep beside the weights."""

from __future__ import annotations

import torch
from torch import Tensor

from lorsa.errors import LorsaError
from lorsa.geometry import Rope
from lorsa.rotary import angles

_TOLERANCE = 1e-3  # radians at the last position: their powers and ours round differently


def rotary_tables(rope: Rope, context: int) -> dict[str, Tensor]:
    """rotary_sin and rotary_cos, fp32 [context, rotary_dim]: one column per dimension."""
    half = angles(rope, context)
    spread = half.repeat_interleave(2, -1) if rope.adjacent_pairs else torch.cat((half, half), -1)
    return {"rotary_sin": spread.sin(), "rotary_cos": spread.cos()}


def take_rotary_tables(tensors: dict[str, Tensor], rope: Rope | None, where: str) -> None:
    """Pops the tables; LorsaError if they are not those of `rope`, since they are what counts."""
    for name in ("rotary_sin", "rotary_cos"):
        table = tensors.pop(name, None)
        if table is None:
            continue
        expected = None if rope is None else rotary_tables(rope, len(table))[name]
        tolerance = max(_TOLERANCE, 4 * torch.finfo(table.dtype).eps)
        if (
            expected is None
            or expected.shape != table.shape
            or not torch.allclose(expected, table.float(), rtol=0, atol=tolerance)
        ):
            raise LorsaError(f"{where}: {name} is not what its configuration's rope gives.")
