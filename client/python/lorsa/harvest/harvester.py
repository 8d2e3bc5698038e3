"""The harvest: model and text in, sealed activation sets out. Protocol: see state.py."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

import lorsa
from lorsa.errors import LorsaError
from lorsa.files import write_atomically
from lorsa.harvest import sealing, state
from lorsa.harvest.attention_check import check_description
from lorsa.harvest.capture import Captured, LayerCapture, to_bits
from lorsa.harvest.description import describe
from lorsa.harvest.families import Family, exported_weights, family_of
from lorsa.harvest.progress import Progress
from lorsa.harvest.shard_writer import ShardWriter
from lorsa.harvest.source_model import ModelSource
from lorsa.harvest.text import packing_for, read_texts, refuse_left_padding, tokenize
from lorsa.manifest import FILE_NAME, MAX_SHARDS, Description, shard_name
from lorsa.shards import RawSequences, ShardReader, ShardSummary


@dataclass(frozen=True)
class HarvestOptions:
    """What `lorsa-harvest` was asked for."""

    source: ModelSource
    layers: tuple[int, ...]
    texts: tuple[str, ...]  # files and glob patterns
    context: int  # positions per sequence
    tokens: int  # positions in all, rounded down to whole sequences
    out: Path
    seed: int = 0
    batch: int = 16  # sequences per forward pass
    sequences_per_shard: int = 512
    model_name: str | None = None  # for the manifest; None: derived from the source
    model_revision: str | None = None

    @property
    def sequences(self) -> int:
        """Sequences of the set."""
        return self.tokens // self.context

    @property
    def shards(self) -> int:
        """Shards of the set."""
        return -(-self.sequences // self.sequences_per_shard)

    def folder(self, layer: int) -> Path:
        """Where a layer's set goes."""
        return self.out if len(self.layers) == 1 else self.out / f"layer-{layer:02d}"


@dataclass(frozen=True)
class _Layer:
    """One layer's set in the making."""

    index: int
    folder: Path
    about: Description
    weights: dict[str, torch.Tensor]  # as in attention.safetensors


def harvest(options: HarvestOptions, progress: Progress, now: Callable[[], str]) -> list[Path]:
    """Writes the sets and returns their folders. `now` gives the manifest's date (RFC 3339)."""
    _check(options)
    lock = state.lock_folder(options.out)
    try:
        text = read_texts(options.texts)
        model, tokenizer = options.source.load()
        family = family_of(model.config.model_type)
        layers = [_layer(options, family, model, layer) for layer in options.layers]
        packing = packing_for(tokenizer, options.context, options.seed)
        sequences = packing.sequences(tokenize(tokenizer, text), options.sequences)
        mask = packing.mask(sequences)
        refuse_left_padding(sequences, mask)
        state.remember_arguments(options.out, _arguments(options, layers, text, sequences))
        for layer in layers:
            _write_weights(layer)
        with LayerCapture(family, model, options.layers) as capture:
            run = _Run(options, layers, capture, progress)
            summaries = run.all_shards(sequences, mask)
        for layer in layers:
            if not (layer.folder / FILE_NAME).exists():
                sealing.seal(layer.folder, layer.about, summaries[layer.index], now())
    finally:
        os.close(lock)
    return [layer.folder for layer in layers]


class _Run:
    """The pass over all shards: step 4."""

    def __init__(
        self,
        options: HarvestOptions,
        layers: Sequence[_Layer],
        capture: LayerCapture,
        progress: Progress,
    ) -> None:
        self._options = options
        self._layers = layers
        self._capture = capture
        self._progress = progress

    def all_shards(self, tokens: torch.Tensor, mask: torch.Tensor) -> dict[int, list[ShardSummary]]:
        """Every layer's summaries, by shard; reads the shards that are there, writes the others."""
        options = self._options
        summaries: dict[int, list[ShardSummary]] = {layer.index: [] for layer in self._layers}
        done = min(_finished_shards(layer.folder) for layer in self._layers)
        done_tokens = min(done * options.sequences_per_shard, len(tokens)) * options.context
        self._progress.start(options.sequences * options.context, done_tokens)
        for shard in range(options.shards):
            part = slice(
                shard * options.sequences_per_shard, (shard + 1) * options.sequences_per_shard
            )
            if shard < done:
                shard_summaries = self._read_shard(shard, len(tokens[part]))
            else:
                shard_summaries = self._write_shard(shard, tokens[part], mask[part])
            for layer, summary in shard_summaries.items():
                summaries[layer].append(summary)
        self._progress.end()
        return summaries

    def _read_shard(self, shard: int, sequences: int) -> dict[int, ShardSummary]:
        result = {}
        for layer in self._layers:
            path = layer.folder / shard_name(shard)
            try:
                with ShardReader(path, layer.about, sequences) as reader:
                    result[layer.index] = reader.summarise()
            except LorsaError as error:
                raise LorsaError(f"{error} Delete it to have it harvested again.") from error
        return result

    def _write_shard(
        self, shard: int, tokens: torch.Tensor, mask: torch.Tensor
    ) -> dict[int, ShardSummary]:
        writers = {
            layer.index: ShardWriter(layer.folder / shard_name(shard), layer.about, len(tokens))
            for layer in self._layers
        }
        try:
            for start in range(0, len(tokens), self._options.batch):
                part = slice(start, start + self._options.batch)
                captured = self._capture.run(tokens[part])
                if start == 0:
                    self._check_descriptions(captured)
                for index, writer in writers.items():
                    writer.append(_raw(captured[index], tokens[part], mask[part]))
                self._progress.advance(tokens[part].numel())
            return {index: writer.finish() for index, writer in writers.items()}
        finally:
            for writer in writers.values():
                writer.close()

    def _check_descriptions(self, captured: dict[int, Captured]) -> None:
        for layer in self._layers:
            assert layer.about.attention is not None
            check_description(
                captured[layer.index], layer.weights, layer.about.attention, layer.index
            )


def _check(options: HarvestOptions) -> None:
    if options.sequences < 1:
        raise LorsaError(
            f"--tokens {options.tokens} is less than one sequence of --context {options.context}."
        )
    if options.shards > MAX_SHARDS:
        raise LorsaError(
            f"{options.shards} shards are more than {MAX_SHARDS}: raise --sequences-per-shard."
        )
    if len(set(options.layers)) != len(options.layers):
        raise LorsaError("A layer is named twice by --layer.")


def _layer(options: HarvestOptions, family: Family, model: Any, layer: int) -> _Layer:
    source = options.source
    about = Description(
        model=options.model_name or source.default_name(),
        model_revision=options.model_revision or source.default_revision(model.config),
        layer=layer,
        attention=describe(family, model, layer, options.context),
        d_model=model.config.hidden_size,
        context=options.context,
        element_type=source.element_type,
        producer=f"lorsa-harvest {lorsa.__version__}",
    )
    weights = exported_weights(family, family.blocks(model)[layer])
    return _Layer(layer, options.folder(layer), about, weights)


def _arguments(
    options: HarvestOptions, layers: Sequence[_Layer], text: str, sequences: torch.Tensor
) -> dict[str, Any]:
    """All that decides the sets' bytes; what users change comes first."""
    abouts = [layer.about for layer in layers]
    return {
        "layers": list(options.layers),
        "model": abouts[0].model,
        "model_revision": abouts[0].model_revision,
        "element_type": abouts[0].element_type,
        "context": options.context,
        "sequences": options.sequences,
        "seed": options.seed,
        "batch": options.batch,
        "sequences_per_shard": options.sequences_per_shard,
        "threads": torch.get_num_threads(),
        "text_sha256": _sha256(text.encode()),
        "tokens_sha256": _sha256(sequences.numpy().tobytes()),
        "attention_sha256": [_sha256(safetensors.torch.save(layer.weights)) for layer in layers],
        "attention": [about.attention and about.attention.to_json() for about in abouts],
        "producer": abouts[0].producer,
    }


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write_weights(layer: _Layer) -> None:
    layer.folder.mkdir(parents=True, exist_ok=True)
    path = layer.folder / sealing.ATTENTION_WEIGHTS
    if not path.exists():
        write_atomically(path, safetensors.torch.save(layer.weights))


def _finished_shards(folder: Path) -> int:
    count = 0
    while (folder / shard_name(count)).exists():
        count += 1
    return count


def _raw(captured: Captured, tokens: torch.Tensor, mask: torch.Tensor) -> RawSequences:
    return RawSequences(
        mhsa_input=to_bits(captured.mhsa_input),
        mhsa_output=to_bits(captured.mhsa_output),
        tokens=tokens.to(torch.int32).numpy(),
        mask=mask.numpy(),
    )
