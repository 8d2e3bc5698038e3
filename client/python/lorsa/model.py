"""Lorsa in torch (arXiv 2504.20938): reads, runs and differentiates a trained checkpoint.

Letters of shapes: B sequences, S positions, d = d_model, H OV heads, G QK heads, D = d_qk,
R = H / G. Names end in the shape where it is not plain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from lorsa.checkpoint import load_tensors
from lorsa.lorsa_config import LorsaConfig
from lorsa.rotary import rotate


@dataclass(frozen=True)
class SparseActivations:
    """The active heads of each token; z is 0 where fewer than K are active."""

    heads: Tensor  # int64 [B, S, K]: OV heads, by falling score
    z: Tensor  # [B, S, K], in scaled units

    def dense(self, n_ov_heads: int) -> Tensor:
        """[B, S, H], 0 for the other heads."""
        zeros = self.z.new_zeros(*self.z.shape[:2], n_ov_heads)
        return zeros.scatter(-1, self.heads, self.z)


class Lorsa(nn.Module):
    """ŷ = Σ_kept z_i W_O[i] + b_D, with z_i = Σ_j A_ij (x_j·W_V[i] + b_V[i]).

    Inputs and outputs are in the units of the model's activations; the checkpoint's scales are
    applied inside: ŷ = Lorsa(x · input_scale) / output_scale. Activations are in scaled units.
    Sequences are whole: padding, if any, is on the right.
    """

    W_Q: nn.Parameter  # [G, d, D]
    W_K: nn.Parameter  # [G, d, D]
    b_Q: nn.Parameter  # [G, D]
    b_K: nn.Parameter  # [G, D]
    W_V: nn.Parameter  # [H, d]: row i reads for OV head i
    b_V: nn.Parameter  # [H]
    W_O: nn.Parameter  # [H, d]: row i is what OV head i writes
    b_D: nn.Parameter  # [d]; with decoder_bias
    ln_q_w: nn.Parameter  # [G, D]; with qk_norm
    ln_k_w: nn.Parameter  # [G, D]

    def __init__(self, config: LorsaConfig) -> None:
        """Weights are zero until they are loaded."""
        super().__init__()
        self.config = config
        for name, shape in config.parameter_shapes().items():
            self.register_parameter(_attribute(name), nn.Parameter(torch.zeros(shape)))

    @staticmethod
    def load(folder: str | PathLike[str]) -> Lorsa:
        """The Lorsa of a checkpoint folder, verified against its manifest's sha256."""
        return Lorsa.of(*load_tensors(Path(folder)))

    @staticmethod
    def of(config: LorsaConfig, tensors: dict[str, Tensor]) -> Lorsa:
        """The Lorsa of tensors by the names and shapes of `config.parameter_shapes()`."""
        lorsa = Lorsa(config)
        lorsa.load_state_dict({_attribute(name): tensor for name, tensor in tensors.items()})
        return lorsa

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights: fp32 as loaded; `lorsa.to(torch.bfloat16)` changes it."""
        return self.W_V.dtype

    def attention_pattern(self, x_BSd: Tensor) -> Tensor:
        """Attention of each QK head, [B, G, S, S]: query, key. The softmax is in fp32."""
        x_BSd = self._scaled(x_BSd)
        q_BGSD = self._project(x_BSd, "q") / self.config.attn_scale
        scores = (q_BGSD @ self._project(x_BSd, "k").transpose(-1, -2)).to(self._wide)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x_BSd.device).triu(1)
        return scores.masked_fill(future, -math.inf).softmax(-1).to(self.dtype)

    def pre_activations(self, x_BSd: Tensor) -> Tensor:
        """z of every OV head before any is dropped, [B, S, H]."""
        pattern_BGSS = self.attention_pattern(x_BSd)
        v_BSH = self._scaled(x_BSd) @ self.W_V.T + self.b_V
        v_BGSR = v_BSH.view(*x_BSd.shape[:2], self.config.n_qk_heads, -1).transpose(1, 2)
        return (pattern_BGSS @ v_BGSR).transpose(1, 2).flatten(2)

    def z_patterns(self, x_BSd: Tensor, heads_N: Tensor) -> Tensor:
        """What each key position contributes to z of some OV heads, [B, N, S, S]: query, key.

        Summed over the keys this is `pre_activations` of those heads.
        """
        heads_per_qk = self.config.n_ov_heads // self.config.n_qk_heads
        pattern_BNSS = self.attention_pattern(x_BSd)[:, heads_N // heads_per_qk]
        v_BSN = self._scaled(x_BSd) @ self.W_V[heads_N].T + self.b_V[heads_N]
        return pattern_BNSS * v_BSN.transpose(1, 2)[:, :, None]

    def encode(self, x_BSd: Tensor) -> Tensor:
        """Activations, [B, S, H]: z of the kept heads, 0 elsewhere. Gradients pass through z."""
        return self.encode_sparse(x_BSd).dense(self.config.n_ov_heads)

    def encode_sparse(self, x_BSd: Tensor) -> SparseActivations:
        """The same, as the kept heads and their z; gradients pass through z."""
        z_BSH = self.pre_activations(x_BSd)
        with torch.no_grad():
            top = self._scores(z_BSH).topk(self.config.top_k, dim=-1)
        z_BSK = z_BSH.gather(-1, top.indices)
        if self.config.selection == "relu":
            z_BSK = z_BSK * (top.values > 0)  # fewer than K where fewer are positive
        return SparseActivations(top.indices, z_BSK)

    def decode(self, activations: Tensor | SparseActivations) -> Tensor:
        """The reconstruction that activations stand for, [B, S, d], in the model's units."""
        if isinstance(activations, SparseActivations):
            heads, z = activations.heads, activations.z
            flat = torch.nn.functional.embedding_bag(
                heads.flatten(0, 1), self.W_O, per_sample_weights=z.flatten(0, 1), mode="sum"
            )
            y_BSd = flat.view(*heads.shape[:2], -1)
        else:
            y_BSd = activations @ self.W_O
        if self.config.decoder_bias:
            y_BSd = y_BSd + self.b_D
        return y_BSd / self.config.output_scale

    def forward(self, x_BSd: Tensor) -> Tensor:
        """The reconstruction of what the attention layer returns for `x_BSd`, [B, S, d]."""
        return self.decode(self.encode_sparse(x_BSd))

    @property
    def _wide(self) -> torch.dtype:
        """At least fp32."""
        return torch.promote_types(self.dtype, torch.float32)

    def _scaled(self, x_BSd: Tensor) -> Tensor:
        return (x_BSd * self.config.input_scale).to(self.dtype)

    def _scores(self, z_BSH: Tensor) -> Tensor:
        is_signed = self.config.selection == "signed"
        if not is_signed and not self.config.select_by_decoder_norm:
            return z_BSH
        norms_H: Tensor = self.W_O.norm(dim=1)
        return (z_BSH.abs() if is_signed else z_BSH) * norms_H

    def _project(self, x_BSd: Tensor, part: str) -> Tensor:
        """q or k after norm and rope, [B, G, S, D]."""
        weight, bias = (self.W_Q, self.b_Q) if part == "q" else (self.W_K, self.b_K)
        heads: Tensor = torch.einsum("bsd,gdD->bgsD", x_BSd, weight) + bias[:, None]
        if self.config.qk_norm is not None:
            mean_square = heads.to(self._wide).square().mean(-1, keepdim=True)
            gain = self.ln_q_w if part == "q" else self.ln_k_w
            normal = heads * (mean_square + self.config.qk_norm.epsilon).rsqrt()
            heads = normal.to(self.dtype) * gain[:, None]
        return heads if self.config.rope is None else rotate(heads, self.config.rope)


def _attribute(tensor: str) -> str:
    """torch allows no dot in a parameter's name."""
    return tensor.replace(".", "_")
