"""Runs a model as deep as needed and takes what its attention modules receive and return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from lorsa.harvest.families import Family


@dataclass(frozen=True)
class Captured:
    """One layer's activations, [sequences, context, d_model], in the model's dtype."""

    mhsa_input: torch.Tensor
    mhsa_output: torch.Tensor


class _DeepEnough(Exception):  # noqa: N818 - not an error: it unwinds the forward pass
    pass


class LayerCapture:
    """Hooks on the chosen layers while the `with` block lasts. One thread."""

    def __init__(self, family: Family, model: Any, layers: Sequence[int]) -> None:
        self._model = model
        self._deepest = max(layers)
        self._inputs: dict[int, torch.Tensor] = {}
        self._captured: dict[int, Captured] = {}
        blocks = family.blocks(model)
        self._hooks = [
            handle
            for layer in layers
            for handle in self._register(layer, family.attention(blocks[layer]))
        ]

    def __enter__(self) -> LayerCapture:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for handle in self._hooks:
            handle.remove()

    def run(self, tokens: torch.Tensor) -> dict[int, Captured]:
        """The layers' activations for `tokens`, int64 [sequences, context]."""
        self._captured = {}
        try:
            with torch.no_grad():
                self._model(tokens, use_cache=False)
        except _DeepEnough:
            return self._captured
        raise AssertionError("the deepest layer's attention did not run")

    def _register(self, layer: int, attention: torch.nn.Module) -> list[Any]:
        def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._inputs[layer] = args[0] if args else kwargs["hidden_states"]

        def after(module: Any, args: tuple[Any, ...], output: Any) -> None:
            result = output[0] if isinstance(output, tuple) else output
            self._captured[layer] = Captured(self._inputs.pop(layer), result)
            if layer == self._deepest:
                raise _DeepEnough

        return [
            attention.register_forward_pre_hook(before, with_kwargs=True),
            attention.register_forward_hook(after),
        ]
