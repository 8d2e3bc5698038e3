"""The pass over all shards of all layers: step 4 of the protocol in state.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from lorsa.errors import LorsaError
from lorsa.harvest.attention_check import check_description
from lorsa.harvest.capture import Captured, LayerCapture
from lorsa.harvest.layer_set import LayerSet
from lorsa.harvest.progress import Progress
from lorsa.shard_writer import ShardWriter
from lorsa.shards import RawSequences, ShardReader, ShardSummary
from lorsa.torch_bits import to_bits

Summaries = dict[int, ShardSummary]  # of one shard, by layer


@dataclass(frozen=True)
class PackedText:
    """What the model is run on."""

    tokens: torch.Tensor  # int64 [sequences, context]
    mask: torch.Tensor  # uint8 [sequences, context]

    def __len__(self) -> int:
        return len(self.tokens)

    def part(self, start: int, count: int) -> PackedText:
        """At most `count` sequences from `start` on."""
        rows = slice(start, start + count)
        return PackedText(self.tokens[rows], self.mask[rows])


class Maker(Protocol):
    """Runs the model and writes shards."""

    def make(
        self, shards: Sequence[tuple[int, PackedText]], advance: Callable[[int], None]
    ) -> Iterator[tuple[int, Summaries]]:
        """Each shard's number and summaries, in any order, once all layers have it.

        `advance` is told of tokens as they are harvested.
        """


class ShardMaker:
    """Captures all layers batch by batch and writes their shards side by side. One thread."""

    def __init__(self, sets: Sequence[LayerSet], capture: LayerCapture, batch: int) -> None:
        self._sets = sets
        self._capture = capture
        self._batch = batch

    def make(
        self, shards: Sequence[tuple[int, PackedText]], advance: Callable[[int], None]
    ) -> Iterator[tuple[int, Summaries]]:
        """In the order given."""
        for shard, text in shards:
            yield shard, self.write(shard, text, advance)

    def write(self, shard: int, text: PackedText, advance: Callable[[int], None]) -> Summaries:
        """One shard of each layer."""
        writers = {
            each.layer: ShardWriter(each.shard_path(shard), each.about, len(text))
            for each in self._sets
        }
        try:
            for start in range(0, len(text), self._batch):
                part = text.part(start, self._batch)
                captured = self._capture.run(part.tokens)
                if start == 0:
                    self._check_descriptions(captured)
                for layer, writer in writers.items():
                    writer.append(_raw(captured[layer], part))
                advance(part.tokens.numel())
            return {layer: writer.finish() for layer, writer in writers.items()}
        finally:
            for writer in writers.values():
                writer.close()

    def _check_descriptions(self, captured: dict[int, Captured]) -> None:
        for each in self._sets:
            assert each.about.attention is not None
            check_description(captured[each.layer], each.weights, each.about.attention, each.layer)


class ShardPass:
    """Reads the shards that stand and has the others made."""

    def __init__(
        self,
        sets: Sequence[LayerSet],
        maker: Maker,
        progress: Progress,
        sequences_per_shard: int,
    ) -> None:
        self._sets = sets
        self._maker = maker
        self._progress = progress
        self._sequences_per_shard = sequences_per_shard

    def run(self, text: PackedText) -> dict[int, list[ShardSummary]]:
        """Every layer's summaries, by shard."""
        starts = range(0, len(text), self._sequences_per_shard)
        parts = [text.part(start, self._sequences_per_shard) for start in starts]
        standing = {shard for shard in range(len(parts)) if self._stands(shard)}
        done = sum(parts[shard].tokens.numel() for shard in standing)
        self._progress.start(text.tokens.numel(), done)
        found = {shard: self._read(shard, parts[shard]) for shard in standing}
        missing = [(shard, part) for shard, part in enumerate(parts) if shard not in standing]
        found |= dict(self._maker.make(missing, self._progress.advance))
        self._progress.end()
        return {
            each.layer: [found[shard][each.layer] for shard in range(len(parts))]
            for each in self._sets
        }

    def _stands(self, shard: int) -> bool:
        return all(each.shard_path(shard).exists() for each in self._sets)

    def _read(self, shard: int, text: PackedText) -> Summaries:
        summaries = {}
        for each in self._sets:
            try:
                with ShardReader(each.shard_path(shard), each.about, len(text)) as reader:
                    summaries[each.layer] = reader.summarise()
            except LorsaError as error:
                raise LorsaError(f"{error} Delete it to have it harvested again.") from error
        return summaries


def _raw(captured: Captured, text: PackedText) -> RawSequences:
    return RawSequences(
        mhsa_input=to_bits(captured.mhsa_input),
        mhsa_output=to_bits(captured.mhsa_output),
        tokens=text.tokens.to(torch.int32).numpy(),
        mask=text.mask.numpy(),
    )
