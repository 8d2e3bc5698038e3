"""bf16, fp16 and fp32 as HDF5 types and as numbers.

numpy has no bf16, so activations are handled as the file's own bits: unsigned integers of the
element's size. HDF5 then converts nothing, and checksums are those of the stored bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorsa.manifest import ELEMENT_BYTES

Bits = NDArray[np.unsignedinteger[Any]]


def bits_dtype(element_type: str) -> np.dtype[Any]:
    """The unsigned integer that holds one element."""
    return np.dtype(f"<u{ELEMENT_BYTES[element_type]}")


def file_type(element_type: str) -> Any:
    """The HDF5 type (h5py.h5t.TypeID) of an element type."""
    from h5py import h5t

    if element_type != "bf16":
        return {"fp16": h5t.IEEE_F16LE, "fp32": h5t.IEEE_F32LE}[element_type]
    bf16 = h5t.IEEE_F16LE.copy()
    bf16.set_fields(15, 7, 8, 0, 7)  # sign, exponent at 7 of 8 bits, mantissa at 0 of 7 bits
    bf16.set_ebias(127)
    return bf16


def to_float32(bits: Bits, element_type: str) -> NDArray[np.float32]:
    """The numbers that `bits` stand for; exact for all three types."""
    if element_type == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if element_type == "fp16":
        return bits.view(np.float16).astype(np.float32)
    return bits.view(np.float32)


def from_float32(values: NDArray[np.float32], element_type: str) -> Bits:
    """The bits of the nearest numbers (ties to even); NaN stays NaN, what is too large is Inf."""
    bits: NDArray[np.uint32] = np.ascontiguousarray(values, np.float32).view(np.uint32)
    if element_type == "bf16":
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        quiet = (bits >> 16) | 0x40  # rounding could make a NaN an Inf
        return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)
    if element_type == "fp16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    return bits
