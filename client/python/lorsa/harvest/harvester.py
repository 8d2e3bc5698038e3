"""The harvest: model and text in, sealed activation sets out. Protocol: see state.py."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import lorsa
from lorsa.errors import LorsaError
from lorsa.harvest import state
from lorsa.harvest.capture import LayerCapture
from lorsa.harvest.description import describe
from lorsa.harvest.families import Family, exported_weights, family_of
from lorsa.harvest.layer_set import LayerSet
from lorsa.harvest.progress import Progress
from lorsa.harvest.shard_pass import PackedText, ShardPass
from lorsa.harvest.source_model import ModelSource
from lorsa.harvest.text import packing_for, read_texts, refuse_left_padding, tokenize
from lorsa.manifest import MAX_SHARDS, Description
from lorsa.sealing import seal


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


def harvest(options: HarvestOptions, progress: Progress, now: Callable[[], str]) -> list[Path]:
    """Writes the sets and returns their folders. `now` gives the manifest's date (RFC 3339)."""
    _check(options)
    with state.locked_folder(options.out):
        text = read_texts(options.texts)
        model, tokenizer = options.source.load()
        family = family_of(model.config.model_type)
        sets = [_layer_set(options, family, model, layer) for layer in options.layers]
        packed = _pack(options, tokenizer, text)
        state.remember_arguments(options.out, _arguments(options, sets, text, packed))
        if not all(each.is_sealed for each in sets):
            with LayerCapture(family, model, options.layers) as capture:
                _write_sets(options, sets, packed, capture, progress, now)
    return [each.folder for each in sets]


def _write_sets(
    options: HarvestOptions,
    sets: Sequence[LayerSet],
    packed: PackedText,
    capture: LayerCapture,
    progress: Progress,
    now: Callable[[], str],
) -> None:
    """Steps 3 to 5."""
    for each in sets:
        each.write_weights()
    shards = ShardPass(
        sets,
        capture,
        progress,
        batch=options.batch,
        sequences_per_shard=options.sequences_per_shard,
    )
    summaries = shards.run(packed)
    for each in sets:
        if not each.is_sealed:
            seal(each.folder, each.about, summaries[each.layer], now())


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


def _layer_set(options: HarvestOptions, family: Family, model: Any, layer: int) -> LayerSet:
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
    return LayerSet(layer, options.folder(layer), about, weights)


def _pack(options: HarvestOptions, tokenizer: Any, text: str) -> PackedText:
    packing = packing_for(tokenizer, options.context, options.seed)
    sequences = packing.sequences(tokenize(tokenizer, text), options.sequences)
    mask = packing.mask(sequences)
    refuse_left_padding(sequences, mask)
    return PackedText(sequences, mask)


def _arguments(
    options: HarvestOptions, sets: Sequence[LayerSet], text: str, packed: PackedText
) -> dict[str, Any]:
    """All that decides the sets' bytes; what users change comes first."""
    abouts = [each.about for each in sets]
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
        "tokens_sha256": _sha256(packed.tokens.numpy().tobytes()),
        "attention_sha256": [_sha256(each.weights_content()) for each in sets],
        "attention": [about.attention and about.attention.to_json() for about in abouts],
        "producer": abouts[0].producer,
    }


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
