"""Where each model family keeps what the harvest needs: one small adapter per layout.

Adapters only locate and rearrange; what a layer computes is decided in description.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from lorsa.errors import LorsaError


class Family(ABC):
    """Access to one family's modules. `model` is the transformers causal LM."""

    @abstractmethod
    def blocks(self, model: Any) -> nn.ModuleList:
        """The decoder blocks, by layer."""

    @abstractmethod
    def attention(self, block: Any) -> nn.Module:
        """The module whose input and output are captured."""

    @abstractmethod
    def input_norm(self, block: Any) -> nn.Module:
        """The norm whose output the attention module receives."""

    @abstractmethod
    def rotary(self, model: Any) -> nn.Module | None:
        """The module that makes the rotary angles, if there is one."""

    @abstractmethod
    def projections(self, attention: Any) -> dict[str, Tensor]:
        """`q_proj.weight`, … in the layout [out, in], q rows ordered by head."""

    def sliding_window(self, config: Any, attention: Any) -> int | None:
        """Keys that a query of this layer sees, itself included; None = all before it."""
        return None


class LlamaLike(Family):
    """Llama, Qwen2, Qwen3 and Mistral: separate projections; Qwen3 adds q_norm and k_norm."""

    def blocks(self, model: Any) -> nn.ModuleList:
        blocks: nn.ModuleList = model.model.layers
        return blocks

    def attention(self, block: Any) -> nn.Module:
        module: nn.Module = block.self_attn
        return module

    def input_norm(self, block: Any) -> nn.Module:
        module: nn.Module = block.input_layernorm
        return module

    def rotary(self, model: Any) -> nn.Module | None:
        module: nn.Module = model.model.rotary_emb
        return module

    def projections(self, attention: Any) -> dict[str, Tensor]:
        parts = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
        return {
            f"{part}.{name}": tensor
            for part in parts
            if hasattr(attention, part)
            for name, tensor in getattr(attention, part).named_parameters()
        }

    def sliding_window(self, config: Any, attention: Any) -> int | None:
        if hasattr(attention, "sliding_window"):  # Qwen2, Qwen3: a matter of the layer
            window: int | None = attention.sliding_window
            return window
        return getattr(config, "sliding_window", None)  # Mistral: of the model


class GptNeoX(Family):
    """Pythia: one fused projection, each head's q, k and v rows one after the other."""

    def blocks(self, model: Any) -> nn.ModuleList:
        blocks: nn.ModuleList = model.gpt_neox.layers
        return blocks

    def attention(self, block: Any) -> nn.Module:
        module: nn.Module = block.attention
        return module

    def input_norm(self, block: Any) -> nn.Module:
        module: nn.Module = block.input_layernorm
        return module

    def rotary(self, model: Any) -> nn.Module | None:
        module: nn.Module = model.gpt_neox.rotary_emb
        return module

    def projections(self, attention: Any) -> dict[str, Tensor]:
        result = {f"o_proj.{name}": tensor for name, tensor in attention.dense.named_parameters()}
        for name, fused in attention.query_key_value.named_parameters():
            by_head = fused.unflatten(0, (-1, 3, attention.head_size))  # [heads, qkv, d_head, …]
            for index, part in enumerate(("q_proj", "k_proj", "v_proj")):
                result[f"{part}.{name}"] = by_head[:, index].flatten(0, 1)
        return result


class Gpt2(Family):
    """GPT-2: fused q, k, v side by side, in Conv1D modules whose weights are [in, out]."""

    def blocks(self, model: Any) -> nn.ModuleList:
        blocks: nn.ModuleList = model.transformer.h
        return blocks

    def attention(self, block: Any) -> nn.Module:
        module: nn.Module = block.attn
        return module

    def input_norm(self, block: Any) -> nn.Module:
        module: nn.Module = block.ln_1
        return module

    def rotary(self, model: Any) -> nn.Module | None:
        return None

    def projections(self, attention: Any) -> dict[str, Tensor]:
        result = {
            "o_proj.weight": attention.c_proj.weight.T,
            "o_proj.bias": attention.c_proj.bias,
        }
        weights = attention.c_attn.weight.T.chunk(3)
        biases = attention.c_attn.bias.chunk(3)
        for part, weight, bias in zip(("q_proj", "k_proj", "v_proj"), weights, biases, strict=True):
            result[f"{part}.weight"], result[f"{part}.bias"] = weight, bias
        return result


_FAMILIES: dict[str, type[Family]] = {
    "llama": LlamaLike,
    "qwen2": LlamaLike,
    "qwen3": LlamaLike,
    "mistral": LlamaLike,
    "gpt_neox": GptNeoX,
    "gpt2": Gpt2,
}


def family_of(model_type: str) -> Family:
    """The adapter for a configuration's `model_type`."""
    if model_type not in _FAMILIES:
        raise LorsaError(
            f"Models of type {model_type!r} cannot be harvested; supported are "
            f"{', '.join(sorted(_FAMILIES))}."
        )
    return _FAMILIES[model_type]()


def exported_weights(family: Family, block: Any) -> dict[str, Tensor]:
    """The tensors of attention.safetensors (docs/activation_format.md), fp32."""
    tensors = family.projections(family.attention(block))
    for name, tensor in family.input_norm(block).named_parameters():
        tensors[f"input_norm.{name}"] = tensor
    return {name: t.detach().to(torch.float32).contiguous() for name, t in tensors.items()}
