"""Seals a folder of finished shards: after this nothing in it changes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import h5py

from lorsa.files import sha256_of, write_atomically
from lorsa.manifest import (
    ATTENTION_WEIGHTS,
    FILE_NAME,
    Description,
    FileRecord,
    Manifest,
    ShardRecord,
    shard_name,
)
from lorsa.shards import ShardSummary

CHECKSUMS = "checksums.h5"


def seal(folder: Path, about: Description, summaries: Sequence[ShardSummary], created: str) -> None:
    """Writes checksums.h5 and, last, manifest.json. `created`: RFC 3339, UTC.

    attention.safetensors is part of the set if the folder holds it.
    """
    _write_checksums(folder / CHECKSUMS, summaries)
    shards = tuple(
        _shard_record(folder / shard_name(index), len(summary.checksums))
        for index, summary in enumerate(summaries)
    )
    weights = folder / ATTENTION_WEIGHTS
    unmasked = sum(summary.unmasked_tokens for summary in summaries)
    manifest = Manifest(
        description=about,
        sequences=sum(shard.sequences for shard in shards),
        unmasked_tokens=unmasked,
        mean_input_norm=sum(summary.input_norm_sum for summary in summaries) / max(unmasked, 1),
        mean_output_norm=sum(summary.output_norm_sum for summary in summaries) / max(unmasked, 1),
        shards=shards,
        checksums=_file_record(folder / CHECKSUMS),
        attention_weights=_file_record(weights) if weights.exists() else None,
        created=created,
    )
    write_atomically(folder / FILE_NAME, manifest.format())


def _write_checksums(path: Path, summaries: Sequence[ShardSummary]) -> None:
    image = io.BytesIO()  # HDF5 writes to memory only: see shard_writer.py
    with h5py.File(image, "w", libver=("v108", "v110")) as file:
        for index, summary in enumerate(summaries):
            name = Path(shard_name(index)).stem
            file.create_dataset(name, data=summary.checksums.astype("<u8"), track_times=False)
    write_atomically(path, image.getvalue())


def _file_record(path: Path) -> FileRecord:
    return FileRecord(path.name, path.stat().st_size, sha256_of(path))


def _shard_record(path: Path, sequences: int) -> ShardRecord:
    return ShardRecord(path.name, sequences, path.stat().st_size, sha256_of(path))
