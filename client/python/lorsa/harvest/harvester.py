"""The harvest: model and text in, sealed activation sets out. Protocol: see state.py."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lorsa.errors import LorsaError
from lorsa.folder_lock import FolderLock
from lorsa.harvest import state
from lorsa.harvest.capture import LayerCapture
from lorsa.harvest.families import Family, family_of
from lorsa.harvest.layer_set import LayerSet
from lorsa.harvest.options import HarvestOptions
from lorsa.harvest.processes import HarvestProcesses
from lorsa.harvest.progress import Progress
from lorsa.harvest.shard_pass import Maker, PackedText, ShardMaker, ShardPass
from lorsa.harvest.text import packing_for, read_texts, refuse_left_padding, tokenize
from lorsa.manifest import MAX_SHARDS
from lorsa.sealing import seal


def harvest(options: HarvestOptions, progress: Progress, now: Callable[[], str]) -> list[Path]:
    """Writes the sets and returns their folders. `now` gives the manifest's date (RFC 3339)."""
    _check(options)
    with state.locked_folder(options.out) as lock:
        text = read_texts(options.texts)
        model, tokenizer = options.source.load()
        family = family_of(model.config.model_type)
        sets = [LayerSet.of(options, family, model, layer) for layer in options.layers]
        packed = _pack(options, tokenizer, text)
        state.remember_arguments(options.out, _arguments(options, sets, text, packed))
        if not all(each.is_sealed for each in sets):
            with _maker(options, family, model, sets, lock) as maker:
                _write_sets(options, sets, packed, maker, progress, now)
    return [each.folder for each in sets]


@contextmanager
def _maker(
    options: HarvestOptions, family: Family, model: Any, sets: Sequence[LayerSet], lock: FolderLock
) -> Iterator[Maker]:
    """What runs the model: this process, or several others."""
    if options.processes > 1:
        yield HarvestProcesses(options, lock)
        return
    with LayerCapture(family, model, options.layers, options.hook_convention) as capture:
        yield ShardMaker(sets, capture, options.batch)


def _write_sets(
    options: HarvestOptions,
    sets: Sequence[LayerSet],
    packed: PackedText,
    maker: Maker,
    progress: Progress,
    now: Callable[[], str],
) -> None:
    """Steps 3 to 5."""
    for each in sets:
        each.write_weights()
    summaries = ShardPass(sets, maker, progress, options.sequences_per_shard).run(packed)
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
        "hook_convention": abouts[0].hook_convention,
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
