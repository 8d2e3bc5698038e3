"""lorsa.Lorsa agrees with the golden files, and reads checkpoint folders strictly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import GOLDEN_NAMES, golden, golden_config, seal, write_checkpoint
from safetensors.torch import load_file, save_file
from torch import Tensor

from lorsa import Lorsa
from lorsa.errors import LorsaError


def _close(got: Tensor, want: Tensor) -> bool:
    return bool((got - want).abs().max() <= 1e-5 * want.abs().max())


def test_there_are_golden_files() -> None:
    assert len(GOLDEN_NAMES) >= 14


@pytest.mark.parametrize("selection", ["relu", "signed"])
@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_agrees_with_the_golden_file(name: str, selection: str, tmp_path: Path) -> None:
    about, tensors, parameters = golden(name)
    lorsa = Lorsa.load(
        write_checkpoint(tmp_path / "c", golden_config(about, selection), parameters)
    )
    suffix = "_signed" if selection == "signed" else ""
    x = tensors["x"]

    assert _close(lorsa.attention_pattern(x), tensors["pattern"])
    assert _close(lorsa.pre_activations(x), tensors["hidden_pre"])
    acts = lorsa.encode(x)
    assert _close(acts, tensors["acts" + suffix])
    assert _close(lorsa.decode(acts), tensors["recon" + suffix])
    assert _close(lorsa(x), tensors["recon" + suffix])

    targets = tensors["mask"].bool()
    loss = (lorsa(x) - tensors["y"]).square().sum(-1)[targets].mean()
    assert _close(loss, tensors["loss" + suffix])
    loss.backward()
    for parameter in parameters:
        gradient = lorsa.get_parameter(parameter.replace(".", "_")).grad
        assert gradient is not None
        if parameter == "b_K" and not about["rope"]:
            # Without rope the same shift of every key changes no softmax: what is left is rounding.
            assert gradient.abs().max() <= 1e-6
        else:
            assert _close(gradient, tensors[f"grad{suffix}.{parameter}"]), parameter


def test_scales_are_applied_inside(tmp_path: Path) -> None:
    about, tensors, parameters = golden("pythia_partial_rope")
    config = golden_config(about, "relu") | {"input_scale": 4.0, "output_scale": 0.5}
    lorsa = Lorsa.load(write_checkpoint(tmp_path / "c", config, parameters))
    assert _close(lorsa(tensors["x"] / 4), tensors["recon"] / 0.5)
    assert _close(lorsa.encode(tensors["x"] / 4), tensors["acts"])


def test_sparse_activations_are_the_dense_ones(tmp_path: Path) -> None:
    about, tensors, parameters = golden("wide_group")
    lorsa = Lorsa.load(write_checkpoint(tmp_path / "c", golden_config(about, "relu"), parameters))
    sparse = lorsa.encode_sparse(tensors["x"])
    assert sparse.heads.shape == sparse.z.shape == (*tensors["x"].shape[:2], about["k"])
    assert _close(sparse.dense(about["n_ov"]), tensors["acts"])
    assert _close(lorsa.decode(sparse), tensors["recon"])


def test_z_patterns_add_up_to_the_pre_activations(tmp_path: Path) -> None:
    about, tensors, parameters = golden("llama_full_rope_ntk")
    config = golden_config(about, "relu") | {"input_scale": 2.0}
    lorsa = Lorsa.load(write_checkpoint(tmp_path / "c", config, parameters))
    x, heads = tensors["x"] / 2, torch.tensor([about["n_ov"] - 1, 0, 3])
    patterns = lorsa.z_patterns(x, heads)
    S = x.shape[1]
    assert patterns.shape == (len(x), 3, S, S)
    assert (patterns.triu(1) == 0).all()
    assert _close(patterns.sum(-1), lorsa.pre_activations(x)[..., heads].transpose(1, 2))


@pytest.mark.parametrize("name", ["pythia_partial_rope", "qk_rms_norm"])
def test_in_bf16_it_stays_near(name: str, tmp_path: Path) -> None:
    about, tensors, parameters = golden(name)
    lorsa = Lorsa.load(write_checkpoint(tmp_path / "c", golden_config(about, "relu"), parameters))
    lorsa.to(torch.bfloat16)
    z = lorsa.pre_activations(tensors["x"].bfloat16())
    assert z.dtype == lorsa(tensors["x"]).dtype == torch.bfloat16
    error = (z.float() - tensors["hidden_pre"]).norm() / tensors["hidden_pre"].norm()
    assert error < 0.02


def _damage_weights(folder: Path) -> None:
    content = bytearray((folder / "lorsa.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "lorsa.safetensors").write_bytes(content)


def _drop_tensor(folder: Path) -> None:
    tensors = load_file(folder / "lorsa.safetensors")
    save_file({k: v for k, v in tensors.items() if k != "b_V"}, folder / "lorsa.safetensors")
    seal(folder)


def _reshape_tensor(folder: Path) -> None:
    tensors = load_file(folder / "lorsa.safetensors")
    save_file(tensors | {"b_V": tensors["b_V"][:-1].clone()}, folder / "lorsa.safetensors")
    seal(folder)


def _edit_config(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps(config))
        seal(folder)

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_damage_weights, "lorsa.safetensors is damaged: its sha256 differs"),
        (lambda c: (c / "lorsa.safetensors").unlink(), "lorsa.safetensors is missing"),
        (lambda c: (c / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda c: (c / "manifest.json").write_text("{}"), "manifest.json: format is missing"),
        (lambda c: (c / "manifest.json").write_text("[]"), "does not hold a JSON object"),
        (_drop_tensor, "does not hold the tensors"),
        (_reshape_tensor, "b_V is not fp32 of shape"),
        (_edit_config(surprise=1), "does not know: surprise"),
        (_edit_config(format_version=2), "format_version is 2; this version reads 1"),
        (_edit_config(top_k=0), "top_k must be an integer from 1"),
        (_edit_config(top_k=10**9), "top_k must be an integer from 1"),
        (_edit_config(n_qk_heads=7), "n_ov_heads must be a multiple of n_qk_heads"),
        (_edit_config(selection="best"), "'best'; it must be relu or signed"),
        (_edit_config(attn_scale=0), "attn_scale must be a number above 0"),
    ],
)
def test_damaged_checkpoints_are_refused(
    damage: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    about, _, parameters = golden("no_rope")
    folder = write_checkpoint(tmp_path / "c", golden_config(about, "relu"), parameters)
    damage(folder)
    with pytest.raises(LorsaError, match=message):
        Lorsa.load(folder)


def test_the_package_imports_without_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, lorsa, lorsa.harvest.command, lorsa.evaluate_command, lorsa.convert_command;"
        "assert not {'torch', 'transformers', 'h5py'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
