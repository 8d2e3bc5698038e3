"""Writes one shard.

Protocol, so that a shard with its name is whole and right after a crash at any point:
  1. write shard-NNNNN.h5.tmp and close it;
  2. reopen it and compare every sequence with what was meant to be written;
  3. publish it (lorsa/files.py: fsync, rename, fsync of the folder).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from lorsa.errors import LorsaError
from lorsa.files import publish, temporary_path
from lorsa.manifest import Description
from lorsa.shards import RawSequences, ShardReader, ShardSummary, datasets_of


class ShardWriter:
    """Takes exactly `sequences` sequences, then `finish`. The same input gives the same bytes."""

    def __init__(self, path: Path, about: Description, sequences: int) -> None:
        self._path = path
        self._about = about
        self._sequences = sequences
        self._written = 0
        self._checksums: list[np.typing.NDArray[np.uint64]] = []
        # Bounds of the file format, so that HDF5 1.10 reads what a newer library writes.
        self._file = h5py.File(temporary_path(path), "w", libver=("v108", "v110"))
        for name, (shape, kind) in datasets_of(about, sequences).items():
            _create_contiguous(self._file, name, shape, kind)

    def append(self, batch: RawSequences) -> None:
        """Step 1."""
        for name in ("mhsa_input", "mhsa_output", "tokens", "mask"):
            values = np.ascontiguousarray(getattr(batch, name))
            dataset = self._file[name].id
            in_file = dataset.get_space()
            in_file.select_hyperslab((self._written,) + (0,) * (values.ndim - 1), values.shape)
            in_memory = h5py.h5s.create_simple(values.shape)
            dataset.write(in_memory, in_file, values, mtype=dataset.get_type())
        self._checksums.append(batch.checksums())
        self._written += len(batch)

    def close(self) -> None:
        """Gives up or ends the writing; an unpublished file is overwritten by the next attempt."""
        self._file.close()

    def finish(self) -> ShardSummary:
        """Steps 2 and 3."""
        self.close()
        with ShardReader(temporary_path(self._path), self._about, self._sequences) as reader:
            summary = reader.summarise()
        if not np.array_equal(summary.checksums, np.concatenate(self._checksums)):
            raise LorsaError(
                f"{self._path}: what was written reads back differently; check the disk."
            )
        publish(self._path)
        return summary


def _create_contiguous(file: Any, name: str, shape: tuple[int, ...], kind: Any) -> None:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    space = h5py.h5s.create_simple(shape)
    h5py.h5d.create(file.id, name.encode(), kind, space, properties)
