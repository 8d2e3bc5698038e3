"""Reads shards: HDF5 files of activations (docs/activation_format.md).

Datasets that lie in one piece are mapped into memory, copy-on-write: reading them copies nothing,
and what was read stays valid after the shard is closed. HDF5 reads the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
import xxhash
from numpy.typing import NDArray

from lorsa.element_types import Bits, bits_dtype, file_type, from_float32, to_float32
from lorsa.errors import LorsaError
from lorsa.manifest import Description

TOKEN_TYPE = h5py.h5t.STD_I32LE
MASK_TYPE = h5py.h5t.STD_U8LE
ACTIVATIONS = ("mhsa_input", "mhsa_output")
MAX_ROOT_ENTRIES = 64


@dataclass(frozen=True)
class Sequences:
    """Some sequences of a set, as numbers."""

    mhsa_input: NDArray[np.float32]  # [sequences, context, d_model]
    mhsa_output: NDArray[np.float32]  # [sequences, context, d_model]
    tokens: NDArray[np.int32]  # [sequences, context]
    mask: NDArray[np.bool_]  # [sequences, context]; True = a target that counts

    def __len__(self) -> int:
        return len(self.tokens)

    def raw(self, element_type: str) -> RawSequences:
        """These with activations rounded to bf16, fp16 or fp32."""
        return RawSequences(
            mhsa_input=from_float32(self.mhsa_input, element_type),
            mhsa_output=from_float32(self.mhsa_output, element_type),
            tokens=self.tokens.astype(np.int32),
            mask=self.mask.astype(np.uint8),
        )


@dataclass(frozen=True)
class RawSequences:
    """A run of sequences as a shard stores them."""

    mhsa_input: Bits  # [sequences, context, d_model], elements as bits
    mhsa_output: Bits  # the same
    tokens: NDArray[np.int32]  # [sequences, context]
    mask: NDArray[np.uint8]  # [sequences, context]

    def __len__(self) -> int:
        return len(self.tokens)

    def part(self, start: int, count: int) -> RawSequences:
        """Sequences [start, start + count) of these."""
        rows = slice(start, start + count)
        return RawSequences(
            self.mhsa_input[rows], self.mhsa_output[rows], self.tokens[rows], self.mask[rows]
        )

    def numbers(self, element_type: str) -> Sequences:
        """These as numbers; their memory where fp32 is stored."""
        return Sequences(
            mhsa_input=to_float32(self.mhsa_input, element_type),
            mhsa_output=to_float32(self.mhsa_output, element_type),
            tokens=self.tokens,
            mask=self.mask.astype(bool),
        )

    def checksums(self) -> NDArray[np.uint64]:
        """XXH3-64 of each sequence's stored bytes, [sequences]."""
        parts = (self.mhsa_input, self.mhsa_output, self.tokens, self.mask)
        return np.array(
            [_checksum([part[i] for part in parts]) for i in range(len(self))], np.uint64
        )


@dataclass(frozen=True)
class ShardSummary:
    """What the manifest and checksums.h5 say about one shard's contents."""

    checksums: NDArray[np.uint64]  # [sequences]
    unmasked_tokens: int
    input_norm_sum: float  # over unmasked tokens
    output_norm_sum: float


def datasets_of(about: Description, sequences: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and HDF5 type of each dataset of a shard."""
    activations = ((sequences, about.context, about.d_model), file_type(about.element_type))
    return {
        **dict.fromkeys(ACTIVATIONS, activations),
        "tokens": ((sequences, about.context), TOKEN_TYPE),
        "mask": ((sequences, about.context), MASK_TYPE),
    }


class ShardReader:
    """One shard, open for reading. Not thread-safe."""

    def __init__(self, path: Path, about: Description, sequences: int | None = None) -> None:
        """`sequences` is what the shard must hold, if known."""
        self._path = path
        self._about = about
        try:
            self._file = h5py.File(path, "r", locking=False)  # a sealed shard does not change
        except OSError as error:
            raise LorsaError(f"{path} cannot be read as HDF5: {error}.") from error
        try:
            self.sequences = self._check_layout(sequences)
            self._mapped = {name: self._map(name) for name in self._dtypes()}
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> ShardReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def read(self, start: int, count: int) -> RawSequences:
        """Sequences [start, start + count)."""
        parts = {}
        for name, dtype in self._dtypes().items():
            mapped = self._mapped[name]
            if mapped is None:
                parts[name] = self._read(name, start, count, dtype)
            else:
                parts[name] = mapped[start : start + count]
        return RawSequences(**parts)

    def batches(self, count: int) -> Iterator[RawSequences]:
        """All sequences in order, at most `count` at a time."""
        for start in range(0, self.sequences, count):
            yield self.read(start, min(count, self.sequences - start))

    def summarise(self) -> ShardSummary:
        """One pass over every byte; LorsaError if an activation is NaN or Inf."""
        checksums, unmasked, input_sum, output_sum = [], 0, 0.0, 0.0
        for raw in self.batches(8):
            checksums.append(raw.checksums())
            targets = raw.mask.astype(bool)
            unmasked += int(targets.sum())
            input_sum += self._norm_sum("mhsa_input", raw.mhsa_input, targets)
            output_sum += self._norm_sum("mhsa_output", raw.mhsa_output, targets)
        return ShardSummary(np.concatenate(checksums), unmasked, input_sum, output_sum)

    def _norm_sum(self, name: str, bits: Bits, targets: NDArray[np.bool_]) -> float:
        values = to_float32(bits, self._about.element_type).astype(np.float64)
        norms = np.sqrt(np.einsum("sjd,sjd->sj", values, values))
        if not np.isfinite(norms).all():
            raise LorsaError(f"{self._path}: {name} holds NaN or Inf.")
        return float(norms[targets].sum())

    def _dtypes(self) -> dict[str, np.dtype[Any]]:
        activations = dict.fromkeys(ACTIVATIONS, bits_dtype(self._about.element_type))
        return {**activations, "tokens": np.dtype("<i4"), "mask": np.dtype("u1")}

    def _map(self, name: str) -> NDArray[Any] | None:
        """A dataset as it lies in the file; None if it does not lie there in one piece."""
        dataset = self._file[name].id
        dtype = self._dtypes()[name]
        offset = dataset.get_offset()
        if offset is None or offset % dtype.itemsize or self._file.userblock_size:
            return None
        if offset + dataset.get_storage_size() > self._path.stat().st_size:
            raise LorsaError(f"{self._path}: {name} ends beyond the end of the file.")
        return np.asarray(np.memmap(self._path, dtype, "c", offset, dataset.shape))

    def _read(self, name: str, start: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        dataset = self._file[name].id
        shape = (count, *dataset.shape[1:])
        out = np.empty(shape, dtype)
        in_file = dataset.get_space()
        in_file.select_hyperslab((start,) + (0,) * (len(shape) - 1), shape)
        try:
            dataset.read(h5py.h5s.create_simple(shape), in_file, out, mtype=dataset.get_type())
        except OSError as error:
            raise LorsaError(f"{self._path}: {name} cannot be read: {error}.") from error
        return out

    def _check_layout(self, sequences: int | None) -> int:
        if len(self._file) > MAX_ROOT_ENTRIES:
            raise LorsaError(f"{self._path} has more than {MAX_ROOT_ENTRIES} entries.")
        found = self._dataset("tokens").shape
        count = found[0] if sequences is None and found else (sequences or 0)
        for name, (shape, kind) in datasets_of(self._about, count).items():
            dataset = self._dataset(name)
            if dataset.shape != shape or count < 1:
                raise LorsaError(f"{self._path}: {name} has shape {dataset.shape}, not {shape}.")
            if dataset.id.get_type() != kind:
                raise LorsaError(f"{self._path}: {name} has another element type than the set.")
        return count

    def _dataset(self, name: str) -> Any:
        link = self._file.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink) or not isinstance(self._file[name], h5py.Dataset):
            raise LorsaError(f"{self._path}: {name} must be a dataset of the root group.")
        dataset = self._file[name]
        if dataset.is_virtual or dataset.external:
            raise LorsaError(f"{self._path}: {name} keeps its values in other files.")
        return dataset


def _checksum(parts: list[NDArray[Any]]) -> int:
    digest = xxhash.xxh3_64(seed=0)
    for part in parts:
        digest.update(part.data)
    return digest.intdigest()
