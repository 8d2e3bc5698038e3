"""Checkpoint folders: lorsa.safetensors and config.json, verified against manifest.json."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from lorsa.errors import LorsaError
from lorsa.files import read_bounded, sha256_of
from lorsa.lorsa_config import FILE_NAME as CONFIG
from lorsa.lorsa_config import LorsaConfig
from lorsa.strict_json import parse_object

WEIGHTS = "lorsa.safetensors"
MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 1 << 20


def load_tensors(folder: Path) -> tuple[LorsaConfig, dict[str, Tensor]]:
    """Configuration and tensors; LorsaError naming the file that is missing or damaged."""
    for name in (CONFIG, WEIGHTS):
        _verify(folder, name)
    config = LorsaConfig.read(folder / CONFIG)
    return config, _read_tensors(folder / WEIGHTS, config.parameter_shapes())


def _verify(folder: Path, name: str) -> None:
    where = folder / MANIFEST
    manifest = parse_object(read_bounded(where, _MAX_MANIFEST_BYTES), str(where))
    files = manifest.get("files")
    record = files.get(name) if isinstance(files, dict) else None
    if not isinstance(record, dict):
        raise LorsaError(f"{where} does not list {name}.")
    path = folder / name
    if not path.is_file() or path.stat().st_size != record.get("bytes"):
        raise LorsaError(f"{path} is missing or has another size than {MANIFEST} says.")
    if sha256_of(path) != record.get("sha256"):
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
