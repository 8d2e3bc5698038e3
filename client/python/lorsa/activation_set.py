"""Reads sealed activation sets (docs/activation_format.md)."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from lorsa.errors import LorsaError
from lorsa.manifest import Manifest
from lorsa.sequence_order import SequenceOrder
from lorsa.shards import RawSequences, Sequences, ShardReader


class ActivationSet:
    """A sealed set, open for reading. Each sequence read is checked against its checksum.

    Files are opened when first read and stay open until `close`. Not thread-safe.

        with ActivationSet("sets/smollm2-l12") as activations:
            batch = activations.read(activations.held_out.start, 8)
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        self.manifest = Manifest.read(self.folder)
        counts = [shard.sequences for shard in self.manifest.shards]
        self._starts = np.concatenate([[0], np.cumsum(counts)])  # first sequence of each shard
        self._shards: dict[int, ShardReader] = {}
        self._checksums = self._read_checksums()

    def __len__(self) -> int:
        return self.manifest.sequences

    def __enter__(self) -> ActivationSet:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files."""
        for shard in self._shards.values():
            shard.__exit__(None, None, None)
        self._shards = {}

    @property
    def training(self) -> range:
        """Sequences that may enter training."""
        return range(self.manifest.training_sequences)

    @property
    def held_out(self) -> range:
        """Sequences that never enter training: the set's last ones."""
        return range(self.manifest.training_sequences, len(self))

    def training_order(self, seed: int) -> SequenceOrder:
        """The order of a job with this seed; LorsaError if the set has no training sequence."""
        if not self.training:
            raise LorsaError(
                f"{self.folder} has {len(self)} sequences, all of them held out: training needs "
                "more than 128."
            )
        return SequenceOrder(len(self.training), seed)

    def read(self, start: int, count: int = 1) -> Sequences:
        """Sequences [start, start + count), as fp32."""
        return self.read_raw(start, count).numbers(self.manifest.description.element_type)

    def read_raw(self, start: int, count: int = 1) -> RawSequences:
        """Sequences [start, start + count), as the set stores them; see shards.py on memory."""
        if not 0 <= start < start + count <= len(self):
            raise IndexError(f"[{start}, {start + count}) is not within [0, {len(self)})")
        parts = []
        while count:
            shard = int(np.searchsorted(self._starts, start, side="right")) - 1
            here = min(count, int(self._starts[shard + 1]) - start)
            parts.append(self._read_shard(shard, start - int(self._starts[shard]), here))
            start, count = start + here, count - here
        if len(parts) == 1:
            return parts[0]
        return RawSequences(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS)
        )

    def _read_shard(self, shard: int, start: int, count: int) -> RawSequences:
        raw = self._reader(shard).read(start, count)
        if not np.array_equal(raw.checksums(), self._checksums[shard][start : start + count]):
            file = self.manifest.shards[shard].file
            raise LorsaError(f"{self.folder / file} is damaged: a sequence fails its checksum.")
        return raw

    def _reader(self, shard: int) -> ShardReader:
        if shard not in self._shards:
            record = self.manifest.shards[shard]
            path = self.folder / record.file
            if not path.is_file() or path.stat().st_size != record.bytes:
                raise LorsaError(f"{path} is missing or has another size than the manifest says.")
            self._shards[shard] = ShardReader(path, self.manifest.description, record.sequences)
        return self._shards[shard]

    def _read_checksums(self) -> list[NDArray[np.uint64]]:
        path = self.folder / self.manifest.checksums.file
        try:
            with h5py.File(path, "r", locking=False) as file:
                found = [file[Path(shard.file).stem][()] for shard in self.manifest.shards]
        except (OSError, KeyError) as error:
            raise LorsaError(f"{path} cannot be read: {error}.") from error
        for shard, checksums in zip(self.manifest.shards, found, strict=True):
            if checksums.shape != (shard.sequences,) or checksums.dtype != np.uint64:
                raise LorsaError(f"{path} does not fit {shard.file}.")
        return found


_FIELDS = ("mhsa_input", "mhsa_output", "tokens", "mask")
