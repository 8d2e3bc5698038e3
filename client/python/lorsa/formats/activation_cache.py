"""Llamascopium's activation caches: a folder per hook point, chunks of safetensors in each.

    CACHE/blocks.12.ln1.hook_normalized/chunk-00000000.safetensors     or, with several writers,
    CACHE/blocks.12.hook_attn_out/shard-1-chunk-00000000.safetensors

A chunk holds `activation` [sequences, context, d_model] and, the same in both folders, `tokens`,
`mask` and `attention_mask` [sequences, context]. Read and written a few sequences at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import lorsa
from lorsa.activation_set import ActivationSet
from lorsa.errors import LorsaError
from lorsa.files import new_folder
from lorsa.formats.llamascopium import NORM_TOLERANCE, HookPoints
from lorsa.harvest.text import refuse_left_padding
from lorsa.input_norm import InputNorm, fold_norm
from lorsa.manifest import (
    ATTENTION_WEIGHTS,
    TRANSFORMER_LENS,
    TRANSFORMERS,
    Description,
    Manifest,
)
from lorsa.set_writer import SetWriter
from lorsa.shards import RawSequences
from lorsa.torch_bits import from_bits, to_bits

SEQUENCES_AT_A_TIME = 16
_CHUNK = re.compile(r"(?:shard-(\d+)-)?chunk-(\d+)\.(safetensors|pt)")
_ELEMENT_TYPES = {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}


@dataclass(frozen=True)
class CacheOrigin:
    """What a cache does not say about itself."""

    model: str = ""
    model_revision: str = ""
    convention: str | None = None  # None: found out from the norms of the inputs
    hooks: HookPoints | None = None  # None: the only pair of folders there is
    layer_of: Path | None = None  # a set of the same layer: its geometry and weights are taken


def to_set(
    cache: Path, out: Path, origin: CacheOrigin, created: str, sequences_per_shard: int = 512
) -> tuple[str, ...]:
    """Makes a sealed set of a cache and returns what the user should know.

    LorsaError naming the chunk whose tokens or masks differ between the two hook points.
    """
    hooks = origin.hooks or _find_hooks(cache)
    chunks = [_Chunk.open(cache, hooks, name) for name in _chunk_names(cache, hooks)]
    first = chunks[0]
    for chunk in chunks:
        if (chunk.context, chunk.d_model, chunk.element_type) != (
            first.context,
            first.d_model,
            first.element_type,
        ):
            raise LorsaError(f"{chunk.input} has another shape or element type than {first.input}.")
    convention, notes = _convention(origin.convention, first, hooks)
    about = Description(
        model=origin.model,
        model_revision=origin.model_revision,
        layer=hooks.layer,
        attention=None,
        d_model=first.d_model,
        context=first.context,
        element_type=first.element_type,
        producer=f"lorsa-convert {lorsa.__version__}",
        hook_convention=convention,
    )
    about, weights = _with_layer(about, origin.layer_of)
    total = sum(len(chunk) for chunk in chunks)
    with SetWriter(out, about, total, created, sequences_per_shard, weights) as writer:
        for chunk in chunks:
            for batch in chunk.batches():
                writer.append(batch)
    return notes


def from_set(
    folder: Path, out: Path, hooks: HookPoints | None = None, sequences_per_chunk: int = 64
) -> None:
    """Writes a set as a cache. `attention_mask`, which a set has not, is as `mask`: so do they."""
    with ActivationSet(folder) as activations, new_folder(out) as cache:
        about = activations.manifest.description
        names = hooks or HookPoints.of_layer(about.layer, about.hook_convention)
        for hook in (names.input, names.output):
            (cache / hook).mkdir()
        for index, start in enumerate(range(0, len(activations), sequences_per_chunk)):
            count = min(sequences_per_chunk, len(activations) - start)
            raw = activations.read_raw(start, count)
            mask = torch.from_numpy(raw.mask.astype(np.int64))
            common = {
                "tokens": torch.from_numpy(raw.tokens.astype(np.int64)),
                "mask": mask,
                "attention_mask": mask.clone(),
            }
            for hook, bits in ((names.input, raw.mhsa_input), (names.output, raw.mhsa_output)):
                activation = from_bits(bits, about.element_type)
                path = cache / hook / f"chunk-{index:08d}.safetensors"
                save_file({"activation": activation} | common, path)


@dataclass(frozen=True)
class _Chunk:
    """One chunk of both hook points."""

    input: Path
    output: Path
    shape: tuple[int, int, int]  # sequences, context, d_model
    element_type: str

    @property
    def context(self) -> int:
        return self.shape[1]

    @property
    def d_model(self) -> int:
        return self.shape[2]

    def __len__(self) -> int:
        return self.shape[0]

    @staticmethod
    def open(cache: Path, hooks: HookPoints, name: str) -> _Chunk:
        paths = [cache / hook / name for hook in (hooks.input, hooks.output)]
        found = []
        for path in paths:
            with _opened(path) as file:
                activation = file.get_slice("activation")
                found.append((tuple(activation.get_shape()), str(activation.get_dtype())))
                shapes = {tuple(file.get_slice(each).get_shape()) for each in _COMMON}
            if shapes != {found[-1][0][:2]} or len(found[-1][0]) != 3:
                raise LorsaError(
                    f"{path}: activation must be [sequences, context, d_model], and tokens, mask "
                    "and attention_mask [sequences, context]."
                )
        if found[0] != found[1] or found[0][1] not in _ELEMENT_TYPES:
            raise LorsaError(f"{name}: the two hook points differ in shape or element type.")
        return _Chunk(paths[0], paths[1], found[0][0], _ELEMENT_TYPES[found[0][1]])

    def batches(self) -> Iterator[RawSequences]:
        with ExitStack() as stack:
            files = [stack.enter_context(_opened(path)) for path in (self.input, self.output)]
            for start in range(0, len(self), SEQUENCES_AT_A_TIME):
                rows = slice(start, start + SEQUENCES_AT_A_TIME)
                yield self._batch([_rows(file, rows) for file in files])

    def _batch(self, parts: list[dict[str, Tensor]]) -> RawSequences:
        given, returned = parts
        for name in _COMMON:
            if not torch.equal(given[name], returned[name]):
                raise LorsaError(
                    f"{self.input.name}: {name} differ between {self.input.parent.name} and "
                    f"{self.output.parent.name}: the two are not of the same text."
                )
        tokens = given["tokens"]
        if tokens.min() < 0 or tokens.max() > torch.iinfo(torch.int32).max:
            raise LorsaError(f"{self.input}: tokens are not 32-bit token ids.")
        counts = given["mask"].bool() & given["attention_mask"].bool()
        refuse_left_padding(tokens, counts)
        return RawSequences(
            mhsa_input=to_bits(given["activation"]),
            mhsa_output=to_bits(returned["activation"]),
            tokens=tokens.to(torch.int32).numpy(),
            mask=counts.to(torch.uint8).numpy(),
        )


_COMMON = ("tokens", "mask", "attention_mask")


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise LorsaError(f"{path} is not a safetensors file: {error}.") from error


def _rows(file: Any, rows: slice) -> dict[str, Tensor]:
    return {name: file.get_slice(name)[rows] for name in ("activation", *_COMMON)}


def _find_hooks(cache: Path) -> HookPoints:
    if not cache.is_dir():
        raise LorsaError(f"{cache} is not a folder.")
    names = sorted(each.name for each in cache.iterdir() if each.is_dir())
    inputs = [name for name in names if name.endswith((".ln1.hook_normalized", ".attn.input"))]
    outputs = [name for name in names if name.endswith(".hook_attn_out")]
    if len(inputs) != 1 or len(outputs) != 1:
        raise LorsaError(
            f"{cache} holds {', '.join(names) or 'nothing'}: name the folders of the layer's input "
            "and output with --hook-in and --hook-out."
        )
    return HookPoints(inputs[0], outputs[0])


def _chunk_names(cache: Path, hooks: HookPoints) -> list[str]:
    """In the order of (writer, chunk); the same for both hook points."""
    names = [_chunks_of(cache / hook) for hook in (hooks.input, hooks.output)]
    if missing := sorted(set(names[0]) ^ set(names[1])):
        raise LorsaError(f"{cache}: {missing[0]} is there for one of the two hook points only.")
    if not names[0]:
        raise LorsaError(f"{cache / hooks.input} holds no chunk-*.safetensors.")
    return names[0]


def _chunks_of(folder: Path) -> list[str]:
    matches = [_CHUNK.fullmatch(path.name) for path in folder.glob("*chunk-*")]
    found = sorted((int(m[1] or 0), int(m[2]), m[3], m[0]) for m in matches if m)
    if pickles := [name for *_, kind, name in found if kind == "pt"]:
        raise LorsaError(
            f"{folder / pickles[0]} is a pickle, which can run any code when it is read: have "
            "Llamascopium write the cache with format='safetensors'."
        )
    return [name for *_, name in found]


def _convention(asked: str | None, chunk: _Chunk, hooks: HookPoints) -> tuple[str, tuple[str, ...]]:
    """Before the gain every input has the norm sqrt(d_model); after it hardly any has."""
    if asked is not None:
        return asked, ()
    with _opened(chunk.input) as file:
        norms = file.get_slice("activation")[:SEQUENCES_AT_A_TIME].float().norm(dim=-1)
    root = chunk.d_model**0.5
    if ((norms - root).abs() <= NORM_TOLERANCE * root).all():
        return TRANSFORMER_LENS, (f"{hooks.input} was taken before the norm's gain.",)
    return TRANSFORMERS, (
        f"{hooks.input} was taken after the norm's gain: its norms are not sqrt(d_model).",
    )


def _with_layer(
    about: Description, source: Path | None
) -> tuple[Description, dict[str, Tensor] | None]:
    """The description and attention.safetensors with what another set of the layer knows."""
    if source is None:
        return about, None
    known = Manifest.read(source).description
    if known.d_model != about.d_model or known.hook_convention != TRANSFORMERS:
        raise LorsaError(
            f"{source} is not a set of the same layer under {TRANSFORMERS}: pass one that "
            "lorsa-harvest made."
        )
    about = replace(
        about,
        attention=known.attention,
        layer=known.layer,
        model=about.model or known.model,
        model_revision=about.model_revision or known.model_revision,
    )
    path = source / ATTENTION_WEIGHTS
    if not path.exists():
        return about, None
    weights = load_file(path)
    if about.hook_convention == TRANSFORMER_LENS:
        weights = fold_norm(weights, InputNorm.read(path, about.d_model))
    return about, weights
