"""One layer's set in the making."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch

from lorsa.files import write_atomically
from lorsa.manifest import ATTENTION_WEIGHTS, FILE_NAME, Description, shard_name


@dataclass(frozen=True)
class LayerSet:
    """What is known of a layer's set before the first sequence."""

    layer: int
    folder: Path
    about: Description
    weights: dict[str, torch.Tensor]  # as in attention.safetensors

    @property
    def is_sealed(self) -> bool:
        """Whether nothing is left to do."""
        return (self.folder / FILE_NAME).exists()

    def shard_path(self, shard: int) -> Path:
        """Where a shard goes."""
        return self.folder / shard_name(shard)

    def finished_shards(self) -> int:
        """Shards that stand, counted from 0 up to the first gap."""
        count = 0
        while self.shard_path(count).exists():
            count += 1
        return count

    def weights_content(self) -> bytes:
        """The bytes of attention.safetensors."""
        return safetensors.torch.save(self.weights)

    def write_weights(self) -> None:
        """Step 3 of the protocol in state.py."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / ATTENTION_WEIGHTS
        if not path.exists():
            write_atomically(path, self.weights_content())
