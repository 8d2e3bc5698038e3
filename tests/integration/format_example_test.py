"""The code printed in docs/activation_format.md is run as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from service import BIN, PATIENCE, ROOT

DOCUMENT = (ROOT / "docs" / "activation_format.md").read_text(encoding="utf-8")


def snippet(name: str) -> str:
    """The one fenced block that begins with ```python `name`."""
    code: str
    (code,) = re.findall(rf"^```python {name}\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    return code


def lorsa_set(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "lorsa-set", command, folder],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder that the printed producer wrote, unsealed."""
    command = [sys.executable, "-c", snippet("writer"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=PATIENCE)
    return tmp_path


def seal(folder: Path) -> str:
    (folder / "shard-00000.h5.tmp").rename(folder / "shard-00000.h5")
    done = lorsa_set("seal", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_printed_producer_writes_a_set_that_is_sealed_and_verified(example: Path) -> None:
    shown = seal(example)
    assert "my-model main" in shown
    assert "fp16 [160, 32, 48]" in shown
    assert "unmasked tokens  4960" in shown
    verified = lorsa_set("verify", example)
    assert verified.returncode == 0, verified.stderr
    assert lorsa_set("show", example).stdout == shown


def test_a_folder_with_a_half_written_shard_is_not_sealed(example: Path) -> None:
    refused = lorsa_set("seal", example)
    assert refused.returncode != 0
    assert "shard-00000.h5.tmp" in refused.stderr


def test_damage_gives_a_sentence_and_an_exit_code(example: Path) -> None:
    seal(example)
    shard = example / "shard-00000.h5"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    damaged = lorsa_set("verify", example)
    assert damaged.returncode != 0
    assert "shard-00000.h5" in damaged.stderr


def test_the_printed_bf16_writer_keeps_the_upper_half_of_each_number(example: Path) -> None:
    scope = {"h5py": h5py, "np": np}
    exec(snippet("bf16"), scope)
    x = np.random.default_rng(1).standard_normal((160, 32, 48)).astype(np.float32)
    truncated = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)
    with h5py.File(example / "shard-00000.h5.tmp", "r+") as file:
        for name in ("mhsa_input", "mhsa_output"):
            del file[name]
            scope["write_bf16"](file, name, x)
            np.testing.assert_array_equal(file[name].astype(np.float32)[...], truncated)
    assert "bf16 [160, 32, 48]" in seal(example)
    norm = np.linalg.norm(truncated[:, 1:].astype(np.float64), axis=-1).mean()
    assert f"input {norm:.6g}" in lorsa_set("show", example).stdout


def test_the_printed_order_gives_the_printed_vectors() -> None:
    scope: dict[str, object] = {}
    exec(snippet("order"), scope)
    index_at = scope["index_at"]
    assert callable(index_at)
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+)–\d+ \| ([\d ]+) \|$", DOCUMENT, re.MULTILINE)
    assert len(rows) == 7
    for n, seed, first, indices in rows:
        for i, index in enumerate(indices.split()):
            assert index_at(int(n), int(seed), int(first) + i) == int(index)
