"""Runs a model as deep as needed and takes what its attention modules receive and return."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from lorsa.harvest.families import Family
from lorsa.manifest import TRANSFORMER_LENS


@dataclass(frozen=True)
class Captured:
    """One layer's activations, [sequences, context, d_model], in the model's dtype."""

    mhsa_input: torch.Tensor
    mhsa_output: torch.Tensor


class _DeepEnough(Exception):  # noqa: N818 - not an error: it unwinds the forward pass
    pass


class LayerCapture:
    """Hooks on the chosen layers while the `with` block lasts. One thread."""

    def __init__(
        self, family: Family, model: Any, layers: Sequence[int], hook_convention: str
    ) -> None:
        """`hook_convention`: what counts as a layer's input, one of HOOK_CONVENTIONS."""
        self._before_gain = hook_convention == TRANSFORMER_LENS
        self._model = model
        self._deepest = max(layers)
        self._inputs: dict[int, torch.Tensor] = {}
        self._captured: dict[int, Captured] = {}
        blocks = family.blocks(model)
        self._hooks = [
            handle for layer in layers for handle in self._register(layer, family, blocks[layer])
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

    def _register(self, layer: int, family: Family, block: Any) -> list[Any]:
        def receive(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._inputs[layer] = args[0] if args else kwargs["hidden_states"]

        def normalize(module: Any, args: tuple[Any, ...]) -> None:
            self._inputs[layer] = without_gain(args[0])

        def finish(module: Any, args: tuple[Any, ...], output: Any) -> None:
            result = output[0] if isinstance(output, tuple) else output
            self._captured[layer] = Captured(self._inputs.pop(layer), result)
            if layer == self._deepest:
                raise _DeepEnough

        attention, norm = family.attention(block), family.input_norm(block)
        if self._before_gain:
            without_gain = _without_gain(norm)
            before = norm.register_forward_pre_hook(normalize)
        else:
            before = attention.register_forward_pre_hook(receive, with_kwargs=True)
        return [before, attention.register_forward_hook(finish)]


def _without_gain(norm: torch.nn.Module) -> torch.nn.Module:
    """A norm that only normalises: gain 1, bias 0."""
    plain = copy.deepcopy(norm)
    for name, parameter in plain.named_parameters():
        torch.nn.init.constant_(parameter, 1.0 if name == "weight" else 0.0)
    return plain
