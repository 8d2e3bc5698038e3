"""What a set cannot describe, and impossible requests, are refused in one clear sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import CONFIGURATIONS, llama, save_model, tokenizer, write_text
from transformers import MistralConfig, OPTConfig, PretrainedConfig, Qwen2Config

from lorsa.errors import LorsaError
from lorsa.harvest import families

Harvest = Callable[..., list[Path]]


def _rope(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0, **parameters}


def _changed(config: PretrainedConfig, **changes: Any) -> PretrainedConfig:
    return type(config)(**(config.to_dict() | changes))


LONGROPE = {"short_factor": [1.0] * 6, "long_factor": [2.0] * 6}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (llama(rope_parameters=_rope("linear")), "rotary embedding by 'linear'"),
        (llama(rope_parameters=_rope("dynamic")), "rotary embedding by 'dynamic'"),
        (llama(rope_parameters=_rope("yarn")), "rotary embedding by 'yarn'"),
        (llama(rope_parameters=_rope("longrope", **LONGROPE)), "rotary embedding by 'longrope'"),
        (
            _changed(CONFIGURATIONS["mistral"], sliding_window=15),
            "sliding window of 15 tokens, shorter than --context 16",
        ),
        (
            _changed(
                CONFIGURATIONS["qwen2"],
                use_sliding_window=True,
                sliding_window=8,
                max_window_layers=1,
                layer_types=None,
            ),
            "sliding window of 8 tokens",
        ),
        (llama(max_position_embeddings=8), "longer than the model's 8 positions"),
        (llama(attn_logit_softcapping=50.0), "caps its attention scores"),
        (
            OPTConfig(hidden_size=16, ffn_dim=16, num_hidden_layers=2, num_attention_heads=2),
            "type 'opt' cannot be harvested; supported are gpt2, gpt_neox, llama, mistral",
        ),
    ],
)
def test_models_that_a_set_cannot_describe(
    config: PretrainedConfig, message: str, run_harvest: Harvest, tmp_path: Path
) -> None:
    model = save_model(tmp_path / "model", config)
    with pytest.raises(LorsaError, match=message):
        run_harvest(tmp_path / "set", model=model)
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["harvest.lock"]


def test_a_full_layer_of_a_model_with_sliding_layers_is_harvested(
    run_harvest: Harvest, tmp_path: Path
) -> None:
    config = CONFIGURATIONS["qwen2"].to_dict() | {
        "use_sliding_window": True,
        "sliding_window": 8,
        "max_window_layers": 2,
        "layer_types": None,
    }
    model = save_model(tmp_path / "model", Qwen2Config(**config))
    assert run_harvest(tmp_path / "set", model=model)


def test_a_window_as_long_as_the_context_is_harvested(run_harvest: Harvest, tmp_path: Path) -> None:
    config = CONFIGURATIONS["mistral"].to_dict() | {"sliding_window": 16}
    assert run_harvest(tmp_path / "set", model=save_model(tmp_path / "m", MistralConfig(**config)))


def test_weights_that_do_not_give_the_captured_output_are_refused(
    run_harvest: Harvest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harvest's own proof: here with an adapter that gets the values' scale wrong."""
    right = families.LlamaLike.projections

    def wrong(self: families.LlamaLike, attention: Any) -> dict[str, torch.Tensor]:
        weights = right(self, attention)
        return weights | {"v_proj.weight": 1.1 * weights["v_proj.weight"]}

    monkeypatch.setattr(families.LlamaLike, "projections", wrong)
    with pytest.raises(LorsaError, match="Layer 1 computes something that the set cannot describe"):
        run_harvest(tmp_path / "set")


def test_padding_that_the_tokenizer_is_set_to_is_not_asked_for(
    llama_folder: Path, run_harvest: Harvest, tmp_path: Path
) -> None:
    model = save_model(tmp_path / "model", llama())
    path = model / "tokenizer.json"
    padding = {
        "strategy": {"Fixed": 9000},
        "direction": "Left",
        "pad_to_multiple_of": None,
        "pad_id": 2,
        "pad_type_id": 0,
        "pad_token": "</s>",
    }
    path.write_text(json.dumps(json.loads(path.read_text()) | {"padding": padding}))
    (folder,) = run_harvest(tmp_path / "set", model=model)
    (unpadded,) = run_harvest(tmp_path / "unpadded", model_name="model")
    for name in ("shard-00000.h5", "checksums.h5"):
        assert (folder / name).read_bytes() == (unpadded / name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": (3,)}, "--layer 3 is not one of 0 to 2"),
        ({"layers": (1, 1)}, "named twice"),
        ({"tokens": 15}, "less than one sequence"),
        ({"tokens": 16 * 5000}, r"text gives \d+ sequences of 16 tokens, 5000 were asked for"),
        ({"texts": ("/nowhere/*.txt",)}, r"--text /nowhere/\*.txt matches no file"),
    ],
)
def test_impossible_requests(
    changes: dict[str, Any], message: str, run_harvest: Harvest, tmp_path: Path
) -> None:
    with pytest.raises(LorsaError, match=message):
        run_harvest(tmp_path / "set", **changes)


def test_a_folder_that_holds_no_model(run_harvest: Harvest, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(LorsaError, match="cannot be loaded"):
        run_harvest(tmp_path / "set", model=tmp_path / "empty")


def test_activations_that_are_not_finite(run_harvest: Harvest, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model = save_model(tmp_path / "model", llama())
    weights = load_file(model / "model.safetensors")
    weights["model.layers.1.self_attn.o_proj.weight"][0, 0] = float("nan")
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    with pytest.raises(LorsaError, match="Layer 1"):
        run_harvest(tmp_path / "set", model=model)
    assert not list((tmp_path / "set").glob("*.h5"))


def test_a_tokenizer_without_bos_gives_windows_alone(run_harvest: Harvest, tmp_path: Path) -> None:
    import h5py

    model = save_model(tmp_path / "model", llama())
    tokenizer(bos=False).save_pretrained(model)
    text = write_text(tmp_path / "text.txt", 600)
    (folder,) = run_harvest(tmp_path / "set", model=model, texts=(str(text),), tokens=64)
    with h5py.File(folder / "shard-00000.h5") as shard:
        first, mask = shard["tokens"][:, 0], shard["mask"][:, 0]
    assert (first != 1).all()
    assert mask.any()
