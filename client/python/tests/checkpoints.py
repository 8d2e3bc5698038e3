"""Checkpoint folders as the trainer writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from lorsa.files import sha256_of


def write_checkpoint(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "lorsa.safetensors")
    seal(folder)
    return folder


def seal(folder: Path) -> None:
    """Writes the manifest of what the folder holds; the state files are left out of the folder."""
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
        for name in ("config.json", "lorsa.safetensors")
    }
    absent = {"bytes": 1, "sha256": "0" * 64}
    manifest = {
        "created": "2026-01-02T03:04:05Z",
        "environment": {"threads": 2},
        "files": files | {"state.json": absent, "state.safetensors": absent},
        "format": "lorsa-checkpoint-manifest",
        "format_version": 1,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
