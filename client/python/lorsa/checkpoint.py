"""Checkpoint folders: lorsa.safetensors and config.json, verified against manifest.json
(docs/checkpoint_format.md)."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lorsa.errors import LorsaError
from lorsa.file_digest import FileDigest
from lorsa.files import new_folder, read_bounded, sha256_of
from lorsa.lorsa_config import FILE_NAME as CONFIG
from lorsa.lorsa_config import LorsaConfig
from lorsa.strict_json import Fields, parse_object

WEIGHTS = "lorsa.safetensors"
MANIFEST = "manifest.json"
MANIFEST_FORMAT = "lorsa-checkpoint-manifest"
MANIFEST_VERSION = 1
COUNTS = "state.json"
STATE = "state.safetensors"
_FILES = (CONFIG, WEIGHTS, COUNTS, STATE)
_MAX_MANIFEST_BYTES = 1 << 20


def load_tensors(folder: Path) -> tuple[LorsaConfig, dict[str, Tensor]]:
    """Configuration and tensors; LorsaError naming the file that is missing or damaged.

    The state files that only training needs may be absent and are not looked at.
    """
    records = _read_manifest(folder / MANIFEST)
    for name in (CONFIG, WEIGHTS):
        _verify(folder / name, records[name])
    config = LorsaConfig.read(folder / CONFIG)
    return config, _read_tensors(folder / WEIGHTS, config.parameter_shapes())


def write_checkpoint(
    folder: Path, config: LorsaConfig, tensors: dict[str, Tensor], created: str, origin: str
) -> None:
    """A checkpoint of step 0 with these weights: training from it begins with a fresh optimiser.

    `created`: RFC 3339, UTC. `origin`, for people: where the weights are from.
    """
    with new_folder(folder) as new:
        save_file(tensors, new / WEIGHTS)
        save_file(_fresh_state(config), new / STATE)
        (new / CONFIG).write_bytes(config.format())
        (new / COUNTS).write_bytes(_as_json(_FRESH_COUNTS))
        manifest = {
            "created": created,
            "environment": {
                "build": origin,
                "instruction_set": "",
                "ranks": 1,
                "threads": 1,
                "torch": torch.__version__,
            },
            "files": {name: asdict(FileDigest.of(new / name)) for name in _FILES},
            "format": MANIFEST_FORMAT,
            "format_version": MANIFEST_VERSION,
        }
        (new / MANIFEST).write_bytes(_as_json(manifest))


_FRESH_COUNTS: dict[str, Any] = {
    "best_fvu": None,
    "evaluated_step": None,
    "format": "lorsa-training-state",
    "format_version": 1,
    "fvu": None,
    "precision": "fp32",
    "refitted": False,
    "rollbacks": [],
    "seed": 0,
    "sequences_consumed": 0,
    "skipped_batches": 0,
    "step": 0,
}


def _fresh_state(config: LorsaConfig) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {
        f"adam.{moment}.{name}": torch.zeros(shape)
        for moment in ("mean", "variance")
        for name, shape in config.parameter_shapes().items()
    }
    return state | {"tokens_since_fired": torch.zeros(config.n_ov_heads, dtype=torch.int64)}


def _as_json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _read_manifest(path: Path) -> dict[str, FileDigest]:
    where = str(path)
    with Fields(parse_object(read_bounded(path, _MAX_MANIFEST_BYTES), where), where) as fields:
        fields.literal("format", MANIFEST_FORMAT)
        fields.literal("format_version", MANIFEST_VERSION)
        fields.text("created")
        fields.any("environment")  # for people
        with Fields(fields.any("files"), fields.path("files")) as files:
            return {name: files.object(name, FileDigest.parse) for name in _FILES}


def _verify(path: Path, record: FileDigest) -> None:
    if not path.is_file() or path.stat().st_size != record.bytes:
        raise LorsaError(f"{path} is missing or has another size than {MANIFEST} says.")
    if sha256_of(path) != record.sha256:
        raise LorsaError(f"{path} is damaged: its sha256 differs; download the checkpoint again.")


def _read_tensors(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            if set(file.keys()) != set(shapes):
                raise LorsaError(f"{path} does not hold the tensors that {CONFIG} asks for.")
            for name, shape in shapes.items():
                found = file.get_slice(name)
                if tuple(found.get_shape()) != shape or found.get_dtype() != "F32":
                    raise LorsaError(f"{path}: {name} is not fp32 of shape {list(shape)}.")
            return {name: file.get_tensor(name) for name in shapes}
    except SafetensorError as error:
        raise LorsaError(f"{path} is not a safetensors file: {error}.") from error
