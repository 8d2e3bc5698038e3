"""What an attention layer computes besides its weights, as manifests and checkpoints name it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorsa.errors import LorsaError
from lorsa.strict_json import Fields

MAX_HEADS = 65536
MAX_D_HEAD = 65536


@dataclass(frozen=True)
class NtkByParts:
    """Rope scaling of Llama 3.1: long wavelengths are stretched by `factor`, short ones are not."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int  # positions

    @staticmethod
    def parse(value: Any, where: str) -> NtkByParts:
        """Reads the object of a manifest or a checkpoint's config.json."""
        with Fields(value, where) as fields:
            result = NtkByParts(
                factor=fields.number("factor"),
                low_freq_factor=fields.number("low_freq_factor"),
                high_freq_factor=fields.number("high_freq_factor"),
                original_context=fields.integer("original_context", 1),
            )
        if result.high_freq_factor <= result.low_freq_factor:
            raise LorsaError(f"{where}: high_freq_factor must be above low_freq_factor.")
        return result


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding of the first `rotary_dim` dimensions of each q and k head."""

    base: float
    rotary_dim: int
    adjacent_pairs: bool  # pairs (0,1), (2,3), … (GPT-J); else halves (GPT-NeoX, Llama)
    ntk_by_parts: NtkByParts | None

    @staticmethod
    def parse(value: Any, where: str) -> Rope:
        """Reads the object of a manifest or a checkpoint's config.json."""
        with Fields(value, where) as fields:
            result = Rope(
                base=fields.number("base", above=1.0),
                rotary_dim=fields.integer("rotary_dim", 2, MAX_D_HEAD),
                adjacent_pairs=fields.boolean("adjacent_pairs"),
                ntk_by_parts=fields.optional("ntk_by_parts", NtkByParts.parse),
            )
        if result.rotary_dim % 2:
            raise LorsaError(f"{where}: rotary_dim must be even.")
        return result

    def inverse_frequencies(self) -> NDArray[np.float32]:
        """Angle per position of each pair of dimensions, [rotary_dim / 2]."""
        exponents = np.arange(0, self.rotary_dim, 2, dtype=np.float32) / np.float32(self.rotary_dim)
        plain: NDArray[np.float32] = np.float32(1) / np.float32(self.base) ** exponents
        ntk = self.ntk_by_parts
        if ntk is None:
            return plain
        # Hugging Face transformers, modeling_rope_utils.py, _compute_llama3_parameters.
        wavelength = 2 * math.pi / plain
        smooth = (ntk.original_context / wavelength - ntk.low_freq_factor) / (
            ntk.high_freq_factor - ntk.low_freq_factor
        )
        smooth = np.clip(smooth, 0.0, 1.0)
        return np.asarray((1 - smooth) * plain / ntk.factor + smooth * plain, np.float32)


@dataclass(frozen=True)
class QkNorm:
    """RMS norm of each q and k head, before rope."""

    epsilon: float

    @staticmethod
    def parse(value: Any, where: str) -> QkNorm:
        """Reads the object of a manifest or a checkpoint's config.json."""
        with Fields(value, where) as fields:
            return QkNorm(epsilon=fields.number("epsilon"))


@dataclass(frozen=True)
class Attention:
    """Geometry of a layer; query head h uses key and value head h // (n_heads / n_kv_heads)."""

    n_heads: int
    n_kv_heads: int
    d_head: int
    attn_scale: float  # divides q·k
    rope: Rope | None
    qk_norm: QkNorm | None

    @staticmethod
    def parse(value: Any, where: str) -> Attention:
        """Reads the `attention` object of a manifest."""
        with Fields(value, where) as fields:
            result = Attention(
                n_heads=fields.integer("n_heads", 1, MAX_HEADS),
                n_kv_heads=fields.integer("n_kv_heads", 1, MAX_HEADS),
                d_head=fields.integer("d_head", 1, MAX_D_HEAD),
                attn_scale=fields.number("attn_scale"),
                rope=fields.optional("rope", Rope.parse),
                qk_norm=fields.optional("qk_norm", QkNorm.parse),
            )
        if result.n_heads % result.n_kv_heads:
            raise LorsaError(f"{where}: n_kv_heads must divide n_heads.")
        if result.rope is not None and result.rope.rotary_dim > result.d_head:
            raise LorsaError(f"{where}: rotary_dim must be at most d_head.")
        return result

    def to_json(self) -> dict[str, Any]:
        """The object as the manifest holds it."""
        return asdict(self)
