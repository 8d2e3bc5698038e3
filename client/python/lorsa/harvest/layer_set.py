"""One layer's set in the making."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

import lorsa
from lorsa.files import write_atomically
from lorsa.harvest.description import describe
from lorsa.harvest.families import Family, exported_weights
from lorsa.harvest.options import HarvestOptions
from lorsa.input_norm import InputNorm, fold_norm
from lorsa.manifest import (
    ATTENTION_WEIGHTS,
    FILE_NAME,
    TRANSFORMER_LENS,
    Description,
    shard_name,
)


@dataclass(frozen=True)
class LayerSet:
    """What is known of a layer's set before the first sequence."""

    layer: int
    folder: Path
    about: Description
    weights: dict[str, torch.Tensor]  # as in attention.safetensors

    @staticmethod
    def of(options: HarvestOptions, family: Family, model: Any, layer: int) -> LayerSet:
        """LorsaError for a layer that a set cannot describe."""
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
            hook_convention=options.hook_convention,
        )
        weights = exported_weights(family, family.blocks(model)[layer])
        if options.hook_convention == TRANSFORMER_LENS:
            weights = fold_norm(weights, InputNorm.of(weights))
        return LayerSet(layer, options.folder(layer), about, weights)

    @property
    def is_sealed(self) -> bool:
        """Whether nothing is left to do."""
        return (self.folder / FILE_NAME).exists()

    def shard_path(self, shard: int) -> Path:
        """Where a shard goes."""
        return self.folder / shard_name(shard)

    def weights_content(self) -> bytes:
        """The bytes of attention.safetensors."""
        return safetensors.torch.save(self.weights)

    def write_weights(self) -> None:
        """Step 3 of the protocol in state.py."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / ATTENTION_WEIGHTS
        if not path.exists():
            write_atomically(path, self.weights_content())
