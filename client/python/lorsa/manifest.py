"""manifest.json of an activation set (docs/activation_format.md)."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lorsa.errors import LorsaError
from lorsa.files import read_bounded
from lorsa.geometry import Attention
from lorsa.strict_json import Fields, parse_object

FORMAT = "lorsa-activation-set"
FORMAT_VERSION = 1
FILE_NAME = "manifest.json"
ATTENTION_WEIGHTS = "attention.safetensors"
TRANSFORMERS = "transformers.self_attn"  # mhsa_input is after the norm's gain and bias …
TRANSFORMER_LENS = "transformer_lens.ln1.hook_normalized"  # … or before them
HOOK_CONVENTIONS = (TRANSFORMERS, TRANSFORMER_LENS)
HOOKS = {"transformers": TRANSFORMERS, "transformer-lens": TRANSFORMER_LENS}  # on command lines

MAX_MANIFEST_BYTES = 32 << 20
MAX_SHARDS = 100_000
MAX_CONTEXT = 1 << 20
MAX_D_MODEL = 1 << 16
MAX_SEQUENCES = 1 << 40
MAX_SEQUENCE_BYTES = 1 << 30
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


@dataclass(frozen=True)
class FileRecord:
    """A file of the set: bare name, size, sha256 in hex."""

    file: str
    bytes: int
    sha256: str

    @staticmethod
    def parse(value: Any, where: str) -> FileRecord:
        """Reads the object of a manifest."""
        with Fields(value, where) as fields:
            return FileRecord(**_file_fields(fields))


@dataclass(frozen=True)
class ShardRecord:
    """A shard: a file and the number of its sequences."""

    file: str
    sequences: int
    bytes: int
    sha256: str

    @staticmethod
    def parse(value: Any, where: str) -> ShardRecord:
        """Reads an element of a manifest's `shards`."""
        with Fields(value, where) as fields:
            count = fields.integer("sequences", 1, MAX_SEQUENCES)
            return ShardRecord(sequences=count, **_file_fields(fields))


@dataclass(frozen=True)
class Description:
    """What a set holds: the part of the manifest that is known before the first sequence."""

    model: str
    model_revision: str
    layer: int
    attention: Attention | None
    d_model: int
    context: int  # positions per sequence
    element_type: str  # bf16, fp16 or fp32
    producer: str
    hook_convention: str = TRANSFORMERS  # one of HOOK_CONVENTIONS


@dataclass(frozen=True)
class Manifest:
    """A sealed set's manifest."""

    description: Description
    sequences: int
    unmasked_tokens: int
    mean_input_norm: float  # mean Euclidean norm over unmasked tokens; 0 if there are none
    mean_output_norm: float
    shards: tuple[ShardRecord, ...]
    checksums: FileRecord
    attention_weights: FileRecord | None
    created: str  # RFC 3339, UTC

    @property
    def held_out_sequences(self) -> int:
        """Sequences at the end of the set that never enter training."""
        return min(self.sequences, max(128, math.ceil(self.sequences / 50)))

    @property
    def training_sequences(self) -> int:
        """Sequences that may enter training: all but the held-out ones."""
        return self.sequences - self.held_out_sequences

    def format(self) -> bytes:
        """The bytes of manifest.json."""
        about = self.description
        weights = self.attention_weights
        value = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "model": {"name": about.model, "revision": about.model_revision},
            "layer": about.layer,
            "hook_convention": about.hook_convention,
            "attention": None if about.attention is None else about.attention.to_json(),
            "d_model": about.d_model,
            "context": about.context,
            "element_type": about.element_type,
            "sequences": self.sequences,
            "unmasked_tokens": self.unmasked_tokens,
            "mean_norm": {
                "mhsa_input": self.mean_input_norm,
                "mhsa_output": self.mean_output_norm,
            },
            "shards": [asdict(shard) for shard in self.shards],
            "checksums": asdict(self.checksums),
            "attention_weights": None if weights is None else asdict(weights),
            "producer": about.producer,
            "created": self.created,
        }
        return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()

    @staticmethod
    def read(folder: Path) -> Manifest:
        """The manifest of a sealed set; LorsaError if the folder is not one."""
        path = folder / FILE_NAME
        if folder.is_dir() and not path.exists():
            raise LorsaError(f"{folder} is not a sealed set: it has no {FILE_NAME}.")
        with Fields(
            parse_object(read_bounded(path, MAX_MANIFEST_BYTES), str(path)), str(path)
        ) as fields:
            manifest = _parse(fields, str(path))
        _check(manifest, str(path))
        return manifest


def _parse(fields: Fields, where: str) -> Manifest:
    fields.literal("format", FORMAT)
    fields.literal("format_version", FORMAT_VERSION)
    with Fields(fields.any("mean_norm"), fields.path("mean_norm")) as norms:
        mean_input_norm = norms.non_negative("mhsa_input")
        mean_output_norm = norms.non_negative("mhsa_output")
    return Manifest(
        description=_parse_description(fields),
        sequences=fields.integer("sequences", 1, MAX_SEQUENCES),
        unmasked_tokens=fields.integer("unmasked_tokens", 0),
        mean_input_norm=mean_input_norm,
        mean_output_norm=mean_output_norm,
        shards=fields.object("shards", _parse_shards),
        checksums=fields.object("checksums", FileRecord.parse),
        attention_weights=fields.optional("attention_weights", FileRecord.parse),
        created=fields.text("created"),
    )


def _parse_description(fields: Fields) -> Description:
    with Fields(fields.any("model"), fields.path("model")) as model:
        name, revision = model.text("name"), model.text("revision")
    return Description(
        model=name,
        model_revision=revision,
        layer=fields.integer("layer", 0, 1 << 20),
        attention=fields.optional("attention", Attention.parse),
        d_model=fields.integer("d_model", 1, MAX_D_MODEL),
        context=fields.integer("context", 1, MAX_CONTEXT),
        element_type=fields.choice("element_type", tuple(ELEMENT_BYTES)),
        producer=fields.text("producer"),
        hook_convention=fields.choice("hook_convention", HOOK_CONVENTIONS),
    )


def _parse_shards(value: Any, where: str) -> tuple[ShardRecord, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_SHARDS:
        raise LorsaError(f"{where} must be a list of 1 to {MAX_SHARDS} shards.")
    shards = tuple(ShardRecord.parse(shard, f"{where}[{i}]") for i, shard in enumerate(value))
    for index, shard in enumerate(shards):
        if shard.file != shard_name(index):
            raise LorsaError(f"{where}[{index}] must be {shard_name(index)}, not {shard.file!r}.")
    return shards


def _check(manifest: Manifest, where: str) -> None:
    if sum(shard.sequences for shard in manifest.shards) != manifest.sequences:
        raise LorsaError(f"{where}: the shards' sequences do not add up to `sequences`.")
    about = manifest.description
    size = 2 * about.context * about.d_model * ELEMENT_BYTES[about.element_type]
    if size > MAX_SEQUENCE_BYTES:
        raise LorsaError(
            f"{where}: a sequence of {size} bytes is larger than {MAX_SEQUENCE_BYTES}."
        )


def _file_fields(fields: Fields) -> dict[str, Any]:
    file = fields.text("file")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", file):
        raise LorsaError(f"{fields.path('file')} must be a bare file name.")
    return {
        "file": file,
        "bytes": fields.integer("bytes", 1),
        "sha256": fields.sha256("sha256"),
    }


def shard_name(index: int) -> str:
    """The file name of a shard."""
    return f"shard-{index:05d}.h5"
