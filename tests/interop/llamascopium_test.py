"""Checkpoints and caches against Llamascopium and TransformerLens themselves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import FIXTURES, GOLDEN_NAMES, golden, golden_config, write_checkpoint
from llamascopium.activation.processors.cached_activation import CachedActivationLoader
from llamascopium.activation.writer import ActivationWriter, ActivationWriterConfig
from llamascopium.models.lorsa import LorsaConfig, LowRankSparseAttention
from lorsa import ActivationSet, Lorsa
from lorsa.convert_command import main
from lorsa.formats import llamascopium
from lorsa.harvest.command import main as harvest
from lorsa.manifest import TRANSFORMER_LENS
from safetensors.torch import load_file, save_file
from tiny_models import VOCABULARY, tokenizer, write_text
from torch import Tensor
from transformer_lens import HookedTransformer, HookedTransformerConfig
from transformer_lens.pretrained.weight_conversions import (
    convert_llama_weights,
    convert_neox_weights,
)
from transformers import AutoModelForCausalLM, GPTNeoXConfig, LlamaConfig

LAYER = 1
INPUT, OUTPUT = "blocks.1.ln1.hook_normalized", "blocks.1.hook_attn_out"


def close(got: Tensor, want: Tensor) -> bool:
    return bool((got - want).abs().max() <= 1e-5 * want.abs().max())


def run(*arguments: str | Path) -> None:
    assert main([str(each) for each in arguments]) == 0


def load(folder: Path) -> LowRankSparseAttention:
    model = LowRankSparseAttention.from_pretrained(str(folder), strict_loading=True)
    assert isinstance(model, LowRankSparseAttention)
    return model


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_theirs_gives_our_reconstruction(name: str, tmp_path: Path) -> None:
    about, tensors, parameters = golden(name)
    config = golden_config(about, "relu") | {"input_scale": 2.5, "output_scale": 0.4}
    run("to-llamascopium", write_checkpoint(tmp_path / "c", config, parameters), tmp_path / "out")
    model = load(tmp_path / "out")
    x = tensors["x"] / 2.5
    assert close(model.decode(model.encode(x)), tensors["recon"] / 0.4)
    # Their trainer's path: with "inference", normalising changes nothing.
    batch = {model.cfg.hook_point_in: x}
    assert torch.equal(model.normalize_activations(batch)[model.cfg.hook_point_in], x)


def their_model(**changes: Any) -> LowRankSparseAttention:
    torch.manual_seed(0)
    shape = {"d_model": 48, "expansion_factor": 2.0, "n_qk_heads": 12, "d_qk_head": 8, "n_ctx": 16}
    rope = {"rotary_dim": 8, "rotary_base": 500}
    hooks = {"hook_point_in": INPUT, "hook_point_out": OUTPUT}
    options = {"act_fn": "topk", "top_k": 5, "norm_activation": "dataset-wise"}
    model = LowRankSparseAttention(LorsaConfig(**shape | rope | hooks | options | changes))
    for parameter in model.parameters():
        parameter.normal_(std=0.3)
    model.set_dataset_average_activation_norm({INPUT: math.sqrt(48), OUTPUT: 3.0})
    return model


def their_reconstruction(model: LowRankSparseAttention, x: Tensor) -> Tensor:
    """In original units, as their evaluation does it."""
    batch, scales = model.normalize_activations(
        {INPUT: x, OUTPUT: torch.zeros_like(x)}, return_scale_factor=True
    )
    reconstruction = model(batch[INPUT])
    return model.denormalize_activations({OUTPUT: reconstruction}, scales)[OUTPUT]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"use_decoder_bias": False},
        {"sparsity_include_decoder_norm": False, "rotary_adjacent_pairs": False},
        {"positional_embedding_type": "none", "attn_scale": 5.0},
        {"use_post_qk_ln": True, "normalization_type": "RMS", "eps": 1e-5},
        {
            "use_NTK_by_parts_rope": True,
            "NTK_by_parts_factor": 8.0,
            "NTK_by_parts_high_freq_factor": 4.0,
            "old_context_len": 64,
        },
        {"expansion_factor": 0.25},  # a QK head for each OV head
    ],
)
@pytest.mark.parametrize("folded", [False, True])
def test_ours_gives_their_reconstruction(
    folded: bool, changes: dict[str, Any], tmp_path: Path
) -> None:
    if folded and changes.get("use_decoder_bias") is False:
        changes = {}  # their folding needs b_D
    x = torch.randn(2, 16, 48)
    model = their_model(**changes)
    expected = their_reconstruction(model, x)
    theirs = tmp_path / "theirs"
    model.save_pretrained(theirs, fold_activation_scale=folded)
    model.cfg.save_hyperparameters(theirs)
    scales = "folded" if folded else "dataset-wise"
    run("from-llamascopium", theirs, tmp_path / "ours", "--scales", scales)
    ours = Lorsa.load(tmp_path / "ours")
    assert ours.config.hook_convention == TRANSFORMER_LENS
    assert close(ours(x), expected)


def test_the_golden_checkpoint_is_what_this_version_writes() -> None:
    expected = load_file(FIXTURES / "peer_checkpoint" / "expected.safetensors")
    model = load(FIXTURES / "peer_checkpoint" / "folded")
    assert close(model(expected["x"]), expected["recon_in_original_units"])


# --- The two hook conventions, on a model run by transformers and by TransformerLens. ---

SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
}
MODELS = {
    "llama": LlamaConfig(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32
    ),
    "gpt_neox": GPTNeoXConfig(
        **SMALL, num_attention_heads=4, max_position_embeddings=32, rotary_pct=0.5
    ),
}


def small_model(family: str) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(MODELS[family]).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.uniform_(0.5, 1.5)
    return model


def in_transformer_lens(family: str, model: Any) -> HookedTransformer:
    """The same weights in TransformerLens, without its processing."""
    config = model.config
    is_llama = family == "llama"
    hooked = HookedTransformer(
        HookedTransformerConfig(
            n_layers=2,
            d_model=48,
            n_ctx=32,
            d_head=12,
            n_heads=4,
            n_key_value_heads=2 if is_llama else None,
            d_vocab=VOCABULARY,
            d_mlp=64,
            act_fn="silu" if is_llama else "gelu",
            gated_mlp=is_llama,
            normalization_type="RMS" if is_llama else "LN",
            eps=config.rms_norm_eps if is_llama else config.layer_norm_eps,
            positional_embedding_type="rotary",
            rotary_adjacent_pairs=False,
            rotary_dim=12 if is_llama else 6,
            rotary_base=10000,
            final_rms=is_llama,
            parallel_attn_mlp=not is_llama,
            default_prepend_bos=False,
        )
    )
    convert = convert_llama_weights if is_llama else convert_neox_weights
    hooked.load_state_dict(convert(model, hooked.cfg), strict=False)
    return hooked


def activations(family: str, model: Any, tokens: Tensor) -> tuple[Tensor, Tensor, Any]:
    """What the layer's attention receives and returns in transformers, and its norm."""
    block = (model.model.layers if family == "llama" else model.gpt_neox.layers)[LAYER]
    attention = block.self_attn if family == "llama" else block.attention
    seen: dict[str, Tensor] = {}

    def keep(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        seen["x"] = args[0] if args else kwargs["hidden_states"]
        seen["y"] = output[0]

    handle = attention.register_forward_hook(keep, with_kwargs=True)
    model(tokens, use_cache=False)
    handle.remove()
    return seen["x"], seen["y"], block.input_layernorm


@pytest.mark.parametrize("family", list(MODELS))
def test_a_lorsa_moves_between_transformers_and_transformer_lens(
    family: str, tmp_path: Path
) -> None:
    model = small_model(family)
    tokens = torch.randint(0, 50, (3, 24))
    x, y, norm = activations(family, model, tokens)
    _, cache = in_transformer_lens(family, model).run_with_cache(tokens)
    assert torch.allclose(cache[OUTPUT], y, atol=1e-5), "the two programs run the same model"
    norm_file = tmp_path / "attention.safetensors"
    tensors = {f"input_norm.{name}": value.data for name, value in norm.named_parameters()}
    save_file(tensors, norm_file)

    about, _, parameters = golden("all_active")
    assert about["d_model"] != 48
    config = golden_config(about, "relu") | {"d_model": 48, "context": 24, "input_scale": 1.5}
    resized = {
        name: torch.randn(_resized(value, about["d_model"])) * 0.2
        for name, value in parameters.items()
    }
    ours = write_checkpoint(tmp_path / "ours", config | {"layer": LAYER}, resized)
    expected = Lorsa.load(ours)(x)

    hooks = ("--hooks", "transformer-lens", "--norm", norm_file)
    run("to-llamascopium", ours, tmp_path / "theirs", *hooks)
    theirs = load(tmp_path / "theirs")
    assert (theirs.cfg.hook_point_in, theirs.cfg.hook_point_out) == (INPUT, OUTPUT)
    assert close(theirs(cache[INPUT]), expected)

    # And back: what they trained on hook_normalized runs on transformers' input.
    imported = ("--hooks", "transformer-lens", "--norm", norm_file)
    run("from-llamascopium", tmp_path / "theirs", tmp_path / "back", *imported)
    assert close(Lorsa.load(tmp_path / "back")(x), expected)


@pytest.mark.parametrize("family", list(MODELS))
def test_a_harvest_under_their_convention_is_what_transformer_lens_sees(
    family: str, tmp_path: Path
) -> None:
    model = small_model(family)
    model.save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    text = write_text(tmp_path / "words.txt", 400)
    arguments = ["--model", tmp_path / "model", "--layer", LAYER, "--text", text, "--dtype", "fp32"]
    size = ["--context", 24, "--tokens", 96, "--out", tmp_path / "set"]
    command = [str(each) for each in [*arguments, *size, "--hooks", "transformer-lens"]]
    assert harvest(command) == 0
    with ActivationSet(tmp_path / "set") as activations:
        part = activations.read(0, 4)
    tokens = torch.from_numpy(part.tokens).long()
    _, cache = in_transformer_lens(family, model).run_with_cache(tokens)
    assert torch.allclose(torch.from_numpy(part.mhsa_input), cache[INPUT], atol=1e-5)
    assert torch.allclose(torch.from_numpy(part.mhsa_output), cache[OUTPUT], atol=1e-5)


def _resized(value: Tensor, d_model: int) -> list[int]:
    return [48 if size == d_model else size for size in value.shape]


# --- Activation caches. ---


def test_their_loader_reads_our_cache(tmp_path: Path) -> None:
    run("from-cache", FIXTURES / "peer_cache", tmp_path / "set")
    run("to-cache", tmp_path / "set", tmp_path / "cache")
    names = sorted(path.name for path in (tmp_path / "cache").iterdir())
    loader = CachedActivationLoader({name: tmp_path / "cache" / name for name in names})
    (chunk,) = loader.process()
    with ActivationSet(tmp_path / "set") as ours:
        part = ours.read(0, len(ours))
    x = chunk["blocks.12.attn.input"].float()
    assert torch.equal(x, torch.from_numpy(part.mhsa_input))
    assert torch.equal(chunk["blocks.12.hook_attn_out"].float(), torch.from_numpy(part.mhsa_output))
    assert torch.equal(chunk["mask"].bool(), torch.from_numpy(part.mask))
    assert torch.equal(chunk["tokens"].int(), torch.from_numpy(part.tokens))


def test_we_read_a_cache_of_their_writer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    samples = []
    for _ in range(6):
        mask = torch.ones(16, dtype=torch.int32)
        mask[0] = 0
        normal = torch.randn(16, 48)
        samples.append(
            {
                INPUT: normal * math.sqrt(48) / normal.norm(dim=-1, keepdim=True),
                OUTPUT: torch.randn(16, 48),
                "tokens": torch.randint(1, 50, (16,)),
                "mask": mask,
                "attention_mask": mask.clone(),
            }
        )
    cfg = ActivationWriterConfig(
        hook_points=[INPUT, OUTPUT], n_samples_per_chunk=4, cache_dir=str(tmp_path / "cache")
    )
    ActivationWriter(cfg).process(iter(samples))
    run("from-cache", tmp_path / "cache", tmp_path / "set")
    with ActivationSet(tmp_path / "set") as ours:
        assert ours.manifest.description.hook_convention == TRANSFORMER_LENS
        part = ours.read(0, 6)
    for name, array in ((INPUT, part.mhsa_input), (OUTPUT, part.mhsa_output)):
        assert torch.equal(torch.from_numpy(array), torch.stack([each[name] for each in samples]))


def test_the_runners_lie_about_folding_is_still_there(tmp_path: Path) -> None:
    """Why `from-llamascopium` does not believe config.json: see docs/formats.md."""
    model = their_model()
    model.cfg.save_hyperparameters(tmp_path)  # their runners: configuration first,
    model.save_pretrained(tmp_path, fold_activation_scale=True)  # then the folded weights
    assert json.loads((tmp_path / "config.json").read_text())["norm_activation"] == "dataset-wise"
    folder = llamascopium.read(tmp_path)
    assert not folder.says_folded
    assert folder.norms is not None
