"""Checkpoint folders: lorsa.safetensors and config.json, verified against manifest.json
(docs/checkpoint_format.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from lorsa.errors import LorsaError
from lorsa.files import read_bounded, sha256_of
from lorsa.lorsa_config import FILE_NAME as CONFIG
from lorsa.lorsa_config import LorsaConfig
from lorsa.strict_json import Fields, parse_object

WEIGHTS = "lorsa.safetensors"
MANIFEST = "manifest.json"
MANIFEST_FORMAT = "lorsa-checkpoint-manifest"
MANIFEST_VERSION = 1
_FILES = (CONFIG, WEIGHTS, "state.json", "state.safetensors")
_MAX_MANIFEST_BYTES = 1 << 20


@dataclass(frozen=True)
class FileDigest:
    """Size and sha256 of a file of the checkpoint."""

    bytes: int
    sha256: str

    @staticmethod
    def parse(value: Any, where: str) -> FileDigest:
        """Reads the object of a manifest."""
        with Fields(value, where) as fields:
            return FileDigest(fields.integer("bytes", 1), fields.sha256("sha256"))


def load_tensors(folder: Path) -> tuple[LorsaConfig, dict[str, Tensor]]:
    """Configuration and tensors; LorsaError naming the file that is missing or damaged.

    The state files that only training needs may be absent and are not looked at.
    """
    records = _read_manifest(folder / MANIFEST)
    for name in (CONFIG, WEIGHTS):
        _verify(folder / name, records[name])
    config = LorsaConfig.read(folder / CONFIG)
    return config, _read_tensors(folder / WEIGHTS, config.parameter_shapes())


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
