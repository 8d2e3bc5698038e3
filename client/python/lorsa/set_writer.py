"""Writes an activation set: shards in order, then the seal (docs/activation_format.md)."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from lorsa.dates import utc_now
from lorsa.errors import LorsaError
from lorsa.manifest import ATTENTION_WEIGHTS, MAX_SHARDS, Description, shard_name
from lorsa.sealing import seal
from lorsa.shard_writer import ShardWriter
from lorsa.shards import RawSequences, Sequences, ShardSummary


class SetWriter:
    """Takes exactly `sequences` sequences, in batches of any size, and seals the set at the end.

        with SetWriter("sets/mine", about, sequences=300) as writer:
            writer.append(Sequences(mhsa_input, mhsa_output, tokens, mask))

    A `with` block that ends with an exception leaves a folder without manifest.json. One thread.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        about: Description,
        sequences: int,
        created: str | None = None,
        sequences_per_shard: int = 512,
        attention_weights: dict[str, Any] | None = None,
    ) -> None:
        """`created`: RFC 3339, UTC; None: now. `attention_weights`: torch tensors of
        attention.safetensors. LorsaError if the folder holds anything.
        """
        folder = Path(folder)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise LorsaError(f"{folder} exists already: name a folder that does not.")
        if not 1 <= sequences <= MAX_SHARDS * sequences_per_shard:
            raise LorsaError(
                f"{sequences} sequences do not make 1 to {MAX_SHARDS} shards of "
                f"{sequences_per_shard}."
            )
        folder.mkdir(parents=True, exist_ok=True)
        if attention_weights is not None:
            from safetensors.torch import save_file

            save_file(attention_weights, folder / ATTENTION_WEIGHTS)
        self._folder = folder
        self._about = about
        self._left = sequences
        self._created = created or utc_now()
        self._per_shard = sequences_per_shard
        self._summaries: list[ShardSummary] = []
        self._shard: ShardWriter | None = None
        self._left_in_shard = 0

    def __enter__(self) -> SetWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shard is not None:
            self._shard.close()
        if error is not None:
            return
        if self._left:
            raise LorsaError(f"{self._folder}: {self._left} sequences are still to be written.")
        seal(self._folder, self._about, self._summaries, self._created)

    def append(self, batch: Sequences | RawSequences) -> None:
        """The next sequences; numbers are rounded to the set's element type.

        LorsaError if a shape is not the set's; OSError if the disk is full.
        """
        if isinstance(batch, Sequences):
            batch = batch.raw(self._about.element_type)
        self._check(batch)
        if len(batch) > self._left:
            raise LorsaError(f"{self._folder}: more sequences than were announced.")
        start = 0
        while start < len(batch):
            shard = self._shard or self._begin_shard()
            count = min(self._left_in_shard, len(batch) - start)
            shard.append(batch.part(start, count))
            start += count
            self._left -= count
            self._left_in_shard -= count
            if self._left_in_shard == 0:
                self._summaries.append(shard.finish())
                self._shard = None

    def _check(self, batch: RawSequences) -> None:
        about = self._about
        positions = (len(batch), about.context)
        activations = (*positions, about.d_model)
        for name, shape in {
            "mhsa_input": activations,
            "mhsa_output": activations,
            "tokens": positions,
            "mask": positions,
        }.items():
            if (found := getattr(batch, name).shape) != shape:
                raise LorsaError(f"{self._folder}: {name} has shape {found}, not {shape}.")

    def _begin_shard(self) -> ShardWriter:
        self._left_in_shard = min(self._per_shard, self._left)
        path = self._folder / shard_name(len(self._summaries))
        self._shard = ShardWriter(path, self._about, self._left_in_shard)
        return self._shard
