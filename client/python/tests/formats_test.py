"""Checkpoints and caches of other programs: golden files that Llamascopium wrote itself."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import (
    FIXTURES,
    GOLDEN_NAMES,
    golden,
    golden_config,
    write_checkpoint,
    write_original,
)
from safetensors.torch import load_file, save_file
from torch import Tensor

from lorsa import ActivationSet, Lorsa
from lorsa.checkpoint import load_tensors
from lorsa.convert_command import main
from lorsa.errors import LorsaError
from lorsa.formats import llamascopium
from lorsa.formats.weights import LorsaWeights, fold_scales, to_convention
from lorsa.input_norm import InputNorm
from lorsa.manifest import TRANSFORMER_LENS

PEER = FIXTURES / "peer_checkpoint"
CACHE = FIXTURES / "peer_cache"
INPUT, OUTPUT = "blocks.12.ln1.hook_normalized", "blocks.12.hook_attn_out"


def _close(got: Tensor, want: Tensor) -> bool:
    return bool((got - want).abs().max() <= 1e-5 * want.abs().max())


def _run(*arguments: str | Path) -> None:
    assert main([str(each) for each in arguments]) == 0


def _golden_weights(name: str, folder: Path, **changes: Any) -> LorsaWeights:
    about, _, parameters = golden(name)
    config = golden_config(about, "relu") | changes
    return LorsaWeights(*load_tensors(write_checkpoint(folder, config, parameters)))


@pytest.fixture(scope="module")
def cached_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cached") / "set"
    _run("from-cache", CACHE, out, "--model-name", "SmolLM2-135M-Instruct")
    return out


@pytest.mark.parametrize("state", ["as_trained", "folded"])
def test_a_checkpoint_of_llamascopium_gives_its_reconstruction(
    state: str, cached_set: Path, tmp_path: Path
) -> None:
    _run("from-llamascopium", PEER / state, tmp_path / "ours", "--check", cached_set)
    expected = load_file(PEER / "expected.safetensors")
    lorsa = Lorsa.load(tmp_path / "ours")
    assert _close(lorsa(expected["x"]), expected["recon_in_original_units"])
    assert lorsa.config.layer == 12
    assert math.isclose(lorsa.config.input_scale, 1.0) == (state == "folded")


@pytest.mark.parametrize("state", ["as_trained", "folded"])
def test_a_configuration_that_lies_about_the_scales_is_found_out(
    state: str, cached_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lies = {"as_trained": "inference", "folded": "dataset-wise"}[state]
    folder = tmp_path / "theirs"
    shutil.copytree(PEER / state, folder)
    config = json.loads((folder / "config.json").read_text()) | {"norm_activation": lies}
    (folder / "config.json").write_text(json.dumps(config))

    if lies == "dataset-wise":
        assert main(["from-llamascopium", str(folder), str(tmp_path / "refused")]) == 1
        assert "Pass --check SET" in capsys.readouterr().err
    _run("from-llamascopium", folder, tmp_path / "ours", "--check", cached_set)
    assert f"says {lies!r}, which is wrong for these weights" in capsys.readouterr().out
    expected = load_file(PEER / "expected.safetensors")
    reconstruction = Lorsa.load(tmp_path / "ours")(expected["x"])
    assert _close(reconstruction, expected["recon_in_original_units"])


def test_the_convention_is_found_out_by_the_norm_of_the_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fixture's hook has TransformerLens' name, but was filled with inputs after the gain."""
    folder = tmp_path / "theirs"
    shutil.copytree(PEER / "as_trained", folder)
    found = llamascopium.read(folder)
    assert found.config.hook_convention == "transformers.self_attn"
    assert "after the norm's gain" in found.notes[0]

    tensors = load_file(folder / llamascopium.WEIGHTS)
    norm = f"dataset_average_activation_norm.{INPUT}"
    save_file(tensors | {norm: torch.tensor(24.0)}, folder / llamascopium.WEIGHTS)
    assert llamascopium.read(folder).config.hook_convention == TRANSFORMER_LENS

    save_file(tensors | {norm: torch.tensor(math.nan)}, folder / llamascopium.WEIGHTS)
    with pytest.raises(LorsaError, match="pass --hooks"):
        llamascopium.read(folder)


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_what_llamascopium_can_express_comes_back(name: str, tmp_path: Path) -> None:
    weights = _golden_weights(name, tmp_path / "ours", input_scale=2.5, output_scale=0.4)
    llamascopium.export(weights, tmp_path / "theirs")
    back = llamascopium.read(tmp_path / "theirs", "transformers.self_attn").weights(folded=True)
    folded = fold_scales(weights)
    assert back.tensors.keys() == folded.tensors.keys()
    assert all(torch.equal(back.tensors[key], folded.tensors[key]) for key in folded.tensors)
    assert back.config == replace(folded.config, model_name="", model_revision="")


def test_scales_fold_without_changing_the_reconstruction(tmp_path: Path) -> None:
    _, tensors, _ = golden("wide_group")
    weights = _golden_weights("wide_group", tmp_path / "c", input_scale=2.5, output_scale=0.4)
    folded = fold_scales(weights)
    whole, apart = (Lorsa.of(each.config, each.tensors) for each in (folded, weights))
    assert _close(whole(tensors["x"]), apart(tensors["x"]))


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_the_norms_gain_and_bias_fold_both_ways(name: str, tmp_path: Path) -> None:
    _, tensors, _ = golden(name)
    weights = _golden_weights(name, tmp_path / "c", input_scale=2.5)
    d = weights.config.d_model
    random = torch.Generator().manual_seed(0)
    gain = torch.rand(d, generator=random, dtype=torch.float64) + 0.5
    norm = InputNorm(gain, torch.randn(d, generator=random, dtype=torch.float64) * 0.1)
    n = tensors["x"]
    x = (n.double() * norm.gain + norm.bias).float()

    before = to_convention(weights, TRANSFORMER_LENS, norm)
    assert before.config.hook_convention == TRANSFORMER_LENS
    ours = Lorsa.of(weights.config, weights.tensors)
    theirs = Lorsa.of(before.config, before.tensors)
    # Scores that tie to rounding may pick other heads: compare what is computed of all heads.
    assert _close(theirs.attention_pattern(n), ours.attention_pattern(x))
    assert _close(theirs.pre_activations(n), ours.pre_activations(x))
    back = to_convention(before, weights.config.hook_convention, norm)
    assert all(_close(back.tensors[key], weights.tensors[key]) for key in weights.tensors)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda w: w.changed({}, selection="signed"), "selection 'signed'"),
        (
            lambda w: w.changed({}, rope=replace(w.config.rope, base=10000.5)),
            "rope.base 10000.5",
        ),
        (
            lambda w: w.changed({"W_O": w.tensors["W_O"].index_fill(0, torch.tensor([1]), 0.0)}),
            "1 heads have a W_O of zeros",
        ),
    ],
)
def test_what_llamascopium_cannot_express_is_named(
    change: Callable[[LorsaWeights], LorsaWeights], named: str, tmp_path: Path
) -> None:
    weights = _golden_weights("llama_full_rope_ntk", tmp_path / "c")
    with pytest.raises(LorsaError, match=named):
        llamascopium.export(change(weights), tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"act_fn": "jumprelu"}, "act_fn is 'jumprelu'"),
        ({"norm_activation": "token-wise"}, "norm_activation is 'token-wise'"),
        ({"rotary_scale": 2}, "rotary_scale is not 1"),
        ({"use_post_qk_ln": True, "normalization_type": "LN"}, "normalization_type is 'LN'"),
        ({"use_post_qk_ln": True, "normalization_type": "RMS"}, "lacks ln_q.w"),
        ({"surprise": 1}, "does not know: surprise"),
        ({"rotary_base": 10000}, "rotary_sin is not what its configuration's rope gives"),
        ({"expansion_factor": 1.0}, r"W_V has shape \[288, 576\]"),
        ({"sae_type": "sae"}, "sae_type is not 'lorsa'"),
    ],
)
def test_what_a_checkpoint_cannot_express_is_named(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    shutil.copytree(PEER / "folded", tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs/config.json").read_text()) | changes
    (tmp_path / "theirs/config.json").write_text(json.dumps(config))
    with pytest.raises(LorsaError, match=named):
        llamascopium.read(tmp_path / "theirs")


# --- The paper's own code. ---


@pytest.mark.parametrize(("use_z_relu", "suffix"), [(False, "_signed"), (True, "")])
def test_the_papers_own_checkpoint_is_read(use_z_relu: bool, suffix: str, tmp_path: Path) -> None:
    _, tensors = write_original(tmp_path / "theirs", use_z_relu=use_z_relu)
    _run("from-original", tmp_path / "theirs", tmp_path / "ours")
    lorsa = Lorsa.load(tmp_path / "ours")
    assert _close(lorsa(tensors["x"] / 4), tensors["recon" + suffix] / 0.5)
    assert lorsa.config.hook_convention == TRANSFORMER_LENS
    assert (lorsa.config.model_name, lorsa.config.layer) == ("EleutherAI/pythia-160m", 3)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"mode": "l1"}, "mode is 'l1'"),
        ({"d_ov_head": 2}, "d_ov_head is 2"),
        ({"virtual_kv_num": 1}, "virtual_kv_num is 1"),
        ({"avg_norm": None}, "avg_norm is not an object"),
    ],
)
def test_what_the_papers_code_has_more_is_named(
    changes: dict[str, Any], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_original(tmp_path / "theirs", **changes)
    assert main(["from-original", str(tmp_path / "theirs"), str(tmp_path / "ours")]) == 1
    assert named in capsys.readouterr().err


def test_a_pickle_is_refused_with_the_way_to_convert_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_original(tmp_path / "theirs")
    weights = tmp_path / "theirs" / "final.safetensors"
    torch.save(load_file(weights), weights.with_suffix(".pth"))
    weights.unlink()
    assert main(["from-original", str(tmp_path / "theirs"), str(tmp_path / "ours")]) == 1
    error = capsys.readouterr().err
    assert "final.pth, a pickle" in error
    python, flag, code = shlex.split(error[error.index("python -c") :])
    assert (python, flag) == ("python", "-c")
    exec(code)
    _run("from-original", tmp_path / "theirs", tmp_path / "ours")


# --- Activation caches. ---


def _cache_tensors(cache: Path, hook: str) -> dict[str, Tensor]:
    """Both hooks' chunks hold the same after a round trip, whatever their number."""
    chunks = [load_file(path) for path in sorted((cache / hook).glob("*.safetensors"))]
    return {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}


def test_a_cache_becomes_a_set_and_a_cache_again(cached_set: Path, tmp_path: Path) -> None:
    with ActivationSet(cached_set) as activations:
        about = activations.manifest.description
        assert (about.layer, about.context, about.element_type) == (12, 96, "bf16")
        assert about.hook_convention == "transformers.self_attn"
        assert len(activations) == 8
    _run("to-cache", cached_set, tmp_path / "cache", "--hook-in", INPUT, "--hook-out", OUTPUT)
    for hook in (INPUT, OUTPUT):
        there, back = _cache_tensors(CACHE, hook), _cache_tensors(tmp_path / "cache", hook)
        assert there.keys() == back.keys()
        for name in ("activation", "tokens", "mask"):
            assert torch.equal(there[name], back[name]), name


def test_chunks_of_several_writers_are_taken_in_their_order(tmp_path: Path) -> None:
    for hook in (INPUT, OUTPUT):
        (tmp_path / "cache" / hook).mkdir(parents=True)
        for writer, chunk in ((10, 0), (2, 1)):
            source = CACHE / hook / f"chunk-0000000{chunk}.safetensors"
            shutil.copy(
                source, tmp_path / "cache" / hook / f"shard-{writer}-chunk-00000000.safetensors"
            )
    _run("from-cache", tmp_path / "cache", tmp_path / "set")
    with ActivationSet(tmp_path / "set") as activations:
        tokens = torch.from_numpy(activations.read(0, 8).tokens.copy())
    expected = _cache_tensors(CACHE, INPUT)["tokens"]
    assert torch.equal(tokens, torch.cat([expected[4:], expected[:4]]))


@pytest.mark.parametrize("name", ["tokens", "mask"])
def test_hook_points_of_different_text_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(CACHE, tmp_path / "cache")
    path = tmp_path / "cache" / OUTPUT / "chunk-00000001.safetensors"
    tensors = load_file(path)
    tensors[name][3, 95] += 1
    save_file(tensors, path)
    assert main(["from-cache", str(tmp_path / "cache"), str(tmp_path / "set")]) == 1
    assert f"chunk-00000001.safetensors: {name} differ" in capsys.readouterr().err
    assert not (tmp_path / "set" / "manifest.json").exists()


def test_a_cache_of_inputs_before_the_gain_takes_the_layer_of_a_harvested_set(
    run_harvest: Callable[..., list[Path]], tmp_path: Path
) -> None:
    harvested = run_harvest(tmp_path / "harvested")[0]
    norm = InputNorm.read(harvested / "attention.safetensors", 48)
    _run("to-cache", harvested, tmp_path / "cache")
    before = tmp_path / "before"
    (before / "blocks.1.ln1.hook_normalized").mkdir(parents=True)
    shutil.copytree(tmp_path / "cache/blocks.1.hook_attn_out", before / "blocks.1.hook_attn_out")
    for path in (tmp_path / "cache/blocks.1.attn.input").iterdir():
        chunk = load_file(path)
        chunk["activation"] = ((chunk["activation"] - norm.bias) / norm.gain).float()
        save_file(chunk, before / "blocks.1.ln1.hook_normalized" / path.name)
    _run("from-cache", before, tmp_path / "set", "--layer-of", harvested)

    with ActivationSet(tmp_path / "set") as ours, ActivationSet(harvested) as theirs:
        about, origin = ours.manifest.description, theirs.manifest.description
        assert about.hook_convention == TRANSFORMER_LENS
        assert (about.attention, about.model) == (origin.attention, origin.model)
        n, x = ours.read(0).mhsa_input, theirs.read(0).mhsa_input
    folded = load_file(tmp_path / "set" / "attention.safetensors")
    layer = load_file(harvested / "attention.safetensors")
    for part in ("q_proj", "k_proj", "v_proj"):
        given = torch.from_numpy(n) @ folded[f"{part}.weight"].T + folded.get(f"{part}.bias", 0)
        wanted = torch.from_numpy(x) @ layer[f"{part}.weight"].T + layer.get(f"{part}.bias", 0)
        assert (given - wanted).abs().max() <= 1e-5 * wanted.abs().max()


# --- The Hugging Face hub. ---


def _metrics(step: int, fvu: float) -> str:
    values = {"fvu": fvu, "l0": 3.0, "dead_fraction": 0.1}
    return json.dumps({"step": str(step), "tokens": str(step * 100), "values": values})


def test_a_folder_for_the_hub_loads_and_tells_where_it_is_from(
    cached_set: Path, tmp_path: Path
) -> None:
    _run("from-llamascopium", PEER / "folded", tmp_path / "ours", "--check", cached_set)
    spec = {"activation_set": "smollm2", "seed": "7"}
    job = {"name": "jobs/demo", "resolved_spec": {"training": spec}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    (tmp_path / "metrics.jsonl").write_text(_metrics(10, 0.2) + "\n" + _metrics(0, 0.625) + "\n")
    out = tmp_path / "hub"
    record = ("--job", tmp_path / "job.json", "--metrics", tmp_path / "metrics.jsonl")
    _run("to-hub", tmp_path / "ours", out, *record)

    expected = load_file(PEER / "expected.safetensors")
    assert _close(Lorsa.load(out)(expected["x"]), expected["recon_in_original_units"])
    card = (out / "README.md").read_text()
    assert card.startswith("---\nlicense: apache-2.0\n")
    assert "FVU on held-out text: 0.625" in card, "of the checkpoint's step, not of the last one"
    assert "jobs/demo, step 0" in card
    assert '"seed": "7"' in card
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    assert {path.name for path in out.iterdir()} == {
        "README.md",
        "SHA256SUMS",
        "config.json",
        "fvu.svg",
        "lorsa.safetensors",
        "manifest.json",
    }
