"""The C++ store accepts what the Python harvester writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lorsa.harvest.command import main

ROOT = Path(__file__).parents[2]
LORSA_SET = Path(os.environ.get("LORSA_BIN_DIR", ROOT / "build" / "release" / "bin")) / "lorsa-set"

sys.path.insert(0, str(ROOT / "client" / "python" / "tests"))
from tiny_models import CONFIGURATIONS, save_model, write_text  # noqa: E402


def _harvest(model: Path, out: Path, *options: str) -> None:
    text = write_text(out.parent / "words.txt", 3000)
    size = ["--context", "32", "--tokens", "4500", "--sequences-per-shard", "50"]
    arguments = ["--model", str(model), "--text", str(text), *size, "--out", str(out), *options]
    assert main(arguments) == 0


def _verify(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LORSA_SET, "verify", folder], check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_a_harvested_set_verifies(dtype: str, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model", CONFIGURATIONS["llama"])
    _harvest(model, tmp_path / "set", "--layer", "1", "--dtype", dtype)
    done = _verify(tmp_path / "set")
    assert (done.returncode, done.stderr) == (0, "")
    assert "140 sequences" in done.stdout


@pytest.mark.parametrize("family", ["llama_rope_scaling", "qwen2", "qwen3", "gpt_neox", "gpt2"])
def test_the_sets_of_every_family_verify(family: str, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model", CONFIGURATIONS[family])
    _harvest(model, tmp_path / "sets", "--layer", "0", "--layer", "2", "--dtype", "fp32")
    for layer in ("layer-00", "layer-02"):
        assert _verify(tmp_path / "sets" / layer).returncode == 0


def test_a_flipped_bit_does_not_verify(tmp_path: Path) -> None:
    model = save_model(tmp_path / "model", CONFIGURATIONS["llama"])
    _harvest(model, tmp_path / "set", "--layer", "1")
    path = tmp_path / "set" / "shard-00001.h5"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    done = _verify(tmp_path / "set")
    assert done.returncode != 0
    assert "shard-00001.h5" in done.stdout + done.stderr
