"""Activations between torch tensors and the bits that a shard stores."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lorsa.element_types import Bits

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def to_bits(tensor: Tensor) -> Bits:
    """The elements' bits, as a shard stores them."""
    integer = {2: torch.uint16, 4: torch.uint32}[tensor.element_size()]
    bits: Bits = np.ascontiguousarray(tensor.contiguous().view(integer).numpy())
    return bits


def from_bits(bits: Bits, element_type: str) -> Tensor:
    """The tensor whose bits these are, in the element type's dtype; shares the memory."""
    return torch.from_numpy(bits).view(DTYPES[element_type])
