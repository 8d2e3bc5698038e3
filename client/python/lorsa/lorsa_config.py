"""config.json of a checkpoint: what a Lorsa is, apart from its weights."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lorsa.errors import LorsaError
from lorsa.files import read_bounded
from lorsa.geometry import QkNorm, Rope
from lorsa.manifest import HOOK_CONVENTIONS, TRANSFORMERS
from lorsa.strict_json import Fields, parse_object

FORMAT = "lorsa-checkpoint"
FORMAT_VERSION = 1
FILE_NAME = "config.json"
_MAX_CONFIG_BYTES = 1 << 20
_MAX_D_MODEL = _MAX_QK_HEADS = 65536
_MAX_OV_HEADS = 1 << 20


@dataclass(frozen=True)
class LorsaConfig:
    """Letters of shapes: d = d_model, H = n_ov_heads, G = n_qk_heads, D = d_qk.

    OV head i uses QK head i // (H / G).
    """

    d_model: int
    n_ov_heads: int
    n_qk_heads: int
    d_qk: int
    top_k: int  # OV heads active per token
    selection: str  # "relu": the largest scores z·‖W_O‖ that are positive; "signed": |z|·‖W_O‖
    select_by_decoder_norm: bool  # with "relu": False scores by z alone
    decoder_bias: bool  # has b_D
    attn_scale: float  # divides q·k
    rope: Rope | None
    qk_norm: QkNorm | None  # RMS norm of each q and k head, before rope
    input_scale: float = 1.0  # the Lorsa sees x · input_scale …
    output_scale: float = 1.0  # … and returns y · output_scale
    context: int = 0  # positions per sequence in training; 0 = unknown
    hook_convention: str = TRANSFORMERS
    model_name: str = ""
    model_revision: str = ""
    layer: int = 0

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each tensor of lorsa.safetensors."""
        d, H, G, D = self.d_model, self.n_ov_heads, self.n_qk_heads, self.d_qk
        shapes: dict[str, tuple[int, ...]] = {
            "W_Q": (G, d, D),
            "W_K": (G, d, D),
            "b_Q": (G, D),
            "b_K": (G, D),
            "W_V": (H, d),
            "b_V": (H,),
            "W_O": (H, d),
        }
        if self.decoder_bias:
            shapes["b_D"] = (d,)
        if self.qk_norm is not None:
            shapes |= {"ln_q.w": (G, D), "ln_k.w": (G, D)}
        return shapes

    def validate(self, where: str) -> None:
        """LorsaError, naming `where`, if the numbers do not go together."""
        if self.n_ov_heads % self.n_qk_heads or self.top_k > self.n_ov_heads:
            raise LorsaError(
                f"{where}: n_ov_heads must be a multiple of n_qk_heads and at least top_k."
            )
        if self.rope is not None and self.rope.rotary_dim > self.d_qk:
            raise LorsaError(f"{where}: rope: rotary_dim must be at most d_qk.")

    def format(self) -> bytes:
        """The bytes of config.json."""
        value = asdict(self) | {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "model": {"name": self.model_name, "revision": self.model_revision},
        }
        del value["model_name"], value["model_revision"]
        return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()

    @staticmethod
    def read(path: Path) -> LorsaConfig:
        """Reads a checkpoint's config.json; LorsaError names what is wrong with it."""
        where = str(path)
        with Fields(parse_object(read_bounded(path, _MAX_CONFIG_BYTES), where), where) as fields:
            config = _parse(fields)
        config.validate(where)
        return config


def _parse(fields: Fields) -> LorsaConfig:
    fields.literal("format", FORMAT)
    fields.literal("format_version", FORMAT_VERSION)
    with Fields(fields.any("model"), fields.path("model")) as model:
        name, revision = model.text("name"), model.text("revision")
    return LorsaConfig(
        d_model=fields.integer("d_model", 1, _MAX_D_MODEL),
        n_ov_heads=fields.integer("n_ov_heads", 1, _MAX_OV_HEADS),
        n_qk_heads=fields.integer("n_qk_heads", 1, _MAX_QK_HEADS),
        d_qk=fields.integer("d_qk", 1, 1024),
        top_k=fields.integer("top_k", 1, _MAX_OV_HEADS),
        selection=fields.choice("selection", ("relu", "signed")),
        select_by_decoder_norm=fields.boolean("select_by_decoder_norm"),
        decoder_bias=fields.boolean("decoder_bias"),
        attn_scale=fields.number("attn_scale"),
        rope=fields.optional("rope", Rope.parse),
        qk_norm=fields.optional("qk_norm", QkNorm.parse),
        input_scale=fields.number("input_scale"),
        output_scale=fields.number("output_scale"),
        context=fields.integer("context", 1),
        hook_convention=fields.choice("hook_convention", HOOK_CONVENTIONS),
        model_name=name,
        model_revision=revision,
        layer=fields.integer("layer", 0),
    )
