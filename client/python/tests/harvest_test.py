"""What a harvest writes: order, mask, layout, checksums, several layers, element types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import xxhash
from tiny_models import SPECIAL, tokenizer
from transformers import AutoModelForCausalLM

from lorsa.files import sha256_of

BOS = SPECIAL.index("<s>")
EOS = SPECIAL.index("</s>")
Harvest = Callable[..., list[Path]]


@pytest.fixture(scope="module")
def folder(run_harvest: Harvest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_harvest(tmp_path_factory.mktemp("out") / "set")[0]


def _read(folder: Path, name: str) -> np.ndarray:
    parts = []
    for path in sorted(folder.glob("shard-*.h5")):
        with h5py.File(path) as shard:
            parts.append(shard[name][()])
    return np.concatenate(parts)


def test_sequences_are_bos_and_windows_of_the_text_in_a_seeded_order(
    folder: Path, text_file: Path
) -> None:
    ids = torch.tensor(tokenizer()(text_file.read_text(), add_special_tokens=False).input_ids)
    windows = ids[: len(ids) // 15 * 15].view(-1, 15)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))[:20]
    tokens = _read(folder, "tokens")
    assert (tokens[:, 0] == BOS).all()
    np.testing.assert_array_equal(tokens[:, 1:], windows[order].numpy())


def test_another_seed_takes_other_windows(
    folder: Path, run_harvest: Harvest, tmp_path: Path
) -> None:
    (other,) = run_harvest(tmp_path / "set", seed=1)
    assert not np.array_equal(_read(other, "tokens"), _read(folder, "tokens"))


def test_mask_leaves_out_bos_and_special_tokens_only(folder: Path) -> None:
    tokens, mask = _read(folder, "tokens"), _read(folder, "mask")
    np.testing.assert_array_equal(mask, (tokens != BOS) & (tokens != EOS))
    assert (tokens[:, 1:] == EOS).any()
    assert json.loads((folder / "manifest.json").read_text())["unmasked_tokens"] == mask.sum()


def test_activations_are_those_of_the_attention_module(folder: Path, llama_folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(llama_folder, dtype=torch.float32).eval()
    seen: dict[str, torch.Tensor] = {}
    model.model.layers[1].self_attn.register_forward_hook(
        lambda module, args, kwargs, output: seen.update(x=kwargs["hidden_states"], y=output[0]),
        with_kwargs=True,
    )
    with torch.no_grad():
        model(torch.from_numpy(_read(folder, "tokens")).long())
    np.testing.assert_allclose(_read(folder, "mhsa_input"), seen["x"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(_read(folder, "mhsa_output"), seen["y"], rtol=1e-4, atol=1e-5)


def test_manifest_says_what_the_files_hold(
    folder: Path, llama_folder: Path, harvest_date: str
) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == "lorsa-activation-set"
    assert manifest["format_version"] == 1
    assert manifest["model"] == {"name": llama_folder.name, "revision": "local"}
    assert manifest["layer"] == 1
    assert manifest["hook_convention"] == "transformers.self_attn"
    assert (manifest["d_model"], manifest["context"]) == (48, 16)
    assert (manifest["element_type"], manifest["sequences"]) == ("fp32", 20)
    assert [shard["sequences"] for shard in manifest["shards"]] == [8, 8, 4]
    assert manifest["created"] == harvest_date
    for record in [*manifest["shards"], manifest["checksums"], manifest["attention_weights"]]:
        path = folder / record["file"]
        assert (path.stat().st_size, sha256_of(path)) == (record["bytes"], record["sha256"])
    mask = _read(folder, "mask").astype(bool)
    for name, mean in manifest["mean_norm"].items():
        norms = np.linalg.norm(_read(folder, name)[mask].astype(np.float64), axis=-1)
        assert mean == pytest.approx(norms.mean(), rel=1e-12)


def test_checksums_are_xxh3_of_each_sequences_bytes(folder: Path) -> None:
    with h5py.File(folder / "checksums.h5") as sums, h5py.File(folder / "shard-00001.h5") as shard:
        names = ("mhsa_input", "mhsa_output", "tokens", "mask")
        stored = b"".join(shard[name][3].tobytes() for name in names)
        assert sums["shard-00001"].dtype == np.uint64
        assert sums["shard-00001"][3] == xxhash.xxh3_64_intdigest(stored)


def test_datasets_are_contiguous_and_typed_as_the_format_says(
    run_harvest: Harvest, tmp_path: Path
) -> None:
    (folder,) = run_harvest(tmp_path / "set", dtype="bf16")
    with h5py.File(folder / "shard-00000.h5") as shard:
        assert set(shard) == {"mhsa_input", "mhsa_output", "tokens", "mask"}
        for dataset in shard.values():
            assert dataset.chunks is None
            assert dataset.id.get_offset() is not None
        kind = shard["mhsa_input"].id.get_type()
        assert (kind.get_size(), kind.get_fields(), kind.get_ebias()) == (2, (15, 7, 8, 0, 7), 127)
        assert shard["tokens"].dtype == np.int32
        assert shard["mask"].dtype == np.uint8


def test_bf16_sets_hold_the_models_own_bits(
    run_harvest: Harvest, llama_folder: Path, tmp_path: Path
) -> None:
    (folder,) = run_harvest(tmp_path / "set", dtype="bf16")
    model = AutoModelForCausalLM.from_pretrained(llama_folder, dtype=torch.bfloat16).eval()
    seen: dict[str, torch.Tensor] = {}
    model.model.layers[1].self_attn.register_forward_hook(
        lambda module, args, kwargs, output: seen.update(x=kwargs["hidden_states"]),
        with_kwargs=True,
    )
    with torch.no_grad():
        model(torch.from_numpy(_read(folder, "tokens")[:3]).long())
    np.testing.assert_array_equal(_read(folder, "mhsa_input")[:3], seen["x"].float().numpy())


def test_several_layers_are_the_same_as_one_by_one(
    folder: Path, run_harvest: Harvest, tmp_path: Path
) -> None:
    folders = run_harvest(tmp_path / "sets", layers=(0, 1))
    assert [path.name for path in folders] == ["layer-00", "layer-01"]
    for name in ("manifest.json", "shard-00002.h5", "checksums.h5", "attention.safetensors"):
        assert (folders[1] / name).read_bytes() == (folder / name).read_bytes()
    assert sha256_of(folders[0] / "shard-00000.h5") != sha256_of(folder / "shard-00000.h5")


def test_nothing_runs_deeper_than_the_deepest_layer(
    llama_folder: Path, run_harvest: Harvest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.llama import modeling_llama

    ran: list[torch.nn.Module] = []
    forward: Callable[..., torch.Tensor] = modeling_llama.LlamaMLP.forward

    def counted(self: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        ran.append(self)
        return forward(self, x)

    monkeypatch.setattr(modeling_llama.LlamaMLP, "forward", counted)
    run_harvest(tmp_path / "set", tokens=48)  # one batch
    assert len(ran) == 1  # of layer 0 alone: layer 1 stops after its attention


def test_no_temporary_files_are_left(folder: Path) -> None:
    assert list(folder.glob("*.tmp")) == []
