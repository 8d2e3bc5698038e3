"""Writes one shard.

Protocol, so that a shard with its name is whole and right after a crash at any point:
  1. reserve space for shard-NNNNN.h5.tmp, so that a full disk shows before anything is written;
  2. let HDF5 lay the file out: it writes its metadata and says where each dataset's data goes;
  3. write the data there, without HDF5;
  4. reopen the file and compare every sequence with what was meant to be written;
  5. publish it (lorsa/files.py: fsync, rename, fsync of the folder).

HDF5 does not write the data because it cannot close a file that it failed to write to, and then
crashes the process at its end. Written here, a failed write is an OSError like any other.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from lorsa.errors import LorsaError
from lorsa.files import publish, temporary_path
from lorsa.manifest import Description
from lorsa.shards import RawSequences, ShardReader, ShardSummary, datasets_of

_METADATA_BYTES = 1 << 16  # more than HDF5 needs for four datasets


class ShardWriter:
    """Takes exactly `sequences` sequences, then `finish`. The same input gives the same bytes."""

    def __init__(self, path: Path, about: Description, sequences: int) -> None:
        """Steps 1 and 2; OSError if the disk has no space for the shard."""
        self._path = path
        self._about = about
        self._sequences = sequences
        self._written = 0
        self._checksums: list[np.typing.NDArray[np.uint64]] = []
        temporary = temporary_path(path)
        datasets = datasets_of(about, sequences)
        data_bytes = sum(math.prod(shape) * kind.get_size() for shape, kind in datasets.values())
        with temporary.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, data_bytes + _METADATA_BYTES)
        self._offsets = _lay_out(temporary, datasets)
        self._file = temporary.open("r+b")

    def append(self, batch: RawSequences) -> None:
        """Step 3."""
        for name, offset in self._offsets.items():
            values = np.ascontiguousarray(getattr(batch, name))
            self._file.seek(offset + self._written * values[0].nbytes)
            self._file.write(values.data)
        self._checksums.append(batch.checksums())
        self._written += len(batch)

    def close(self) -> None:
        """Ends the writing, or gives up; the next attempt overwrites an unpublished file."""
        self._file.close()

    def finish(self) -> ShardSummary:
        """Steps 4 and 5."""
        self.close()
        with ShardReader(temporary_path(self._path), self._about, self._sequences) as reader:
            summary = reader.summarise()
        if not np.array_equal(summary.checksums, np.concatenate(self._checksums)):
            raise LorsaError(
                f"{self._path}: what was written reads back differently; check the disk."
            )
        publish(self._path)
        return summary


def _lay_out(path: Path, datasets: dict[str, tuple[tuple[int, ...], Any]]) -> dict[str, int]:
    """Makes the HDF5 file; returns where each dataset's data starts."""
    # Bounds of the file format, so that HDF5 1.10 reads what a newer library lays out.
    with h5py.File(path, "w", libver=("v108", "v110"), locking=False) as file:
        offsets = {}
        for name, (shape, kind) in datasets.items():
            space, properties = h5py.h5s.create_simple(shape), _contiguous()
            dataset = h5py.h5d.create(file.id, name.encode(), kind, space, properties)
            offsets[name] = dataset.get_offset()
    return offsets


def _contiguous() -> Any:
    """Contiguous data with an address from the start, never filled, and no date in the file."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    return properties
