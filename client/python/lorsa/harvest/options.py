"""What `lorsa-harvest` was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lorsa.harvest.source_model import ModelSource
from lorsa.manifest import TRANSFORMERS


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
    hook_convention: str = TRANSFORMERS  # one of HOOK_CONVENTIONS
    processes: int = 1  # that run the model; changes speed, never bytes

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
