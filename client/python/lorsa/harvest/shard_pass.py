"""The pass over all shards of all layers: step 4 of the protocol in state.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lorsa.errors import LorsaError
from lorsa.harvest.attention_check import check_description
from lorsa.harvest.capture import Captured, LayerCapture
from lorsa.harvest.layer_set import LayerSet
from lorsa.harvest.progress import Progress
from lorsa.shard_writer import ShardWriter
from lorsa.shards import RawSequences, ShardReader, ShardSummary
from lorsa.torch_bits import to_bits


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


class ShardPass:
    """Captures all layers batch by batch and writes their shards side by side. One thread."""

    def __init__(
        self,
        sets: Sequence[LayerSet],
        capture: LayerCapture,
        progress: Progress,
        *,
        batch: int,
        sequences_per_shard: int,
    ) -> None:
        self._sets = sets
        self._capture = capture
        self._progress = progress
        self._batch = batch
        self._sequences_per_shard = sequences_per_shard

    def run(self, text: PackedText) -> dict[int, list[ShardSummary]]:
        """Every layer's summaries, by shard: of the shards that stand, and of those it writes."""
        summaries: dict[int, list[ShardSummary]] = {each.layer: [] for each in self._sets}
        finished = min(each.finished_shards() for each in self._sets)
        done = text.part(0, finished * self._sequences_per_shard)
        self._progress.start(text.tokens.numel(), done.tokens.numel())
        for shard, start in enumerate(range(0, len(text), self._sequences_per_shard)):
            part = text.part(start, self._sequences_per_shard)
            make = self._read_shard if shard < finished else self._write_shard
            for layer, summary in make(shard, part).items():
                summaries[layer].append(summary)
        self._progress.end()
        return summaries

    def _read_shard(self, shard: int, text: PackedText) -> dict[int, ShardSummary]:
        summaries = {}
        for each in self._sets:
            try:
                with ShardReader(each.shard_path(shard), each.about, len(text)) as reader:
                    summaries[each.layer] = reader.summarise()
            except LorsaError as error:
                raise LorsaError(f"{error} Delete it to have it harvested again.") from error
        return summaries

    def _write_shard(self, shard: int, text: PackedText) -> dict[int, ShardSummary]:
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
                self._progress.advance(part.tokens.numel())
            return {layer: writer.finish() for layer, writer in writers.items()}
        finally:
            for writer in writers.values():
                writer.close()

    def _check_descriptions(self, captured: dict[int, Captured]) -> None:
        for each in self._sets:
            assert each.about.attention is not None
            check_description(captured[each.layer], each.weights, each.about.attention, each.layer)


def _raw(captured: Captured, text: PackedText) -> RawSequences:
    return RawSequences(
        mhsa_input=to_bits(captured.mhsa_input),
        mhsa_output=to_bits(captured.mhsa_output),
        tokens=text.tokens.to(torch.int32).numpy(),
        mask=text.mask.numpy(),
    )
