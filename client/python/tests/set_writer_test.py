"""Writing sets from arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lorsa import ActivationSet, Description, Sequences, SetWriter
from lorsa.element_types import from_float32, to_float32
from lorsa.errors import LorsaError

ABOUT = Description(
    model="arrays",
    model_revision="1",
    layer=3,
    attention=None,
    d_model=6,
    context=5,
    element_type="bf16",
    producer="tests",
)


def sequences(count: int, context: int = 5) -> Sequences:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, count, context, 6)).astype(np.float32)
    tokens = random.integers(0, 100, (count, context))
    return Sequences(x, y, tokens.astype(np.int32), tokens > 20)


def test_what_is_written_is_read_rounded_to_the_sets_type(tmp_path: Path) -> None:
    batch = sequences(7)
    with SetWriter(tmp_path / "set", ABOUT, 14, sequences_per_shard=4) as writer:
        writer.append(batch)
        writer.append(batch.raw("bf16"))
    with ActivationSet(str(tmp_path / "set")) as found:
        assert found.manifest.description == ABOUT
        assert len(found.manifest.shards) == 4
        part = found.read(7, 7)
    want = torch.from_numpy(batch.mhsa_input).to(torch.bfloat16).float()
    assert torch.equal(torch.from_numpy(part.mhsa_input), want)
    np.testing.assert_array_equal(part.tokens, batch.tokens)
    np.testing.assert_array_equal(part.mask, batch.mask)


def test_other_shapes_and_numbers_of_sequences_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(LorsaError, match=r"mhsa_input has shape \(2, 4, 6\), not \(2, 5, 6\)"),
        SetWriter(tmp_path / "other", ABOUT, 2) as writer,
    ):
        writer.append(sequences(2, context=4))
    with (
        pytest.raises(LorsaError, match="more sequences than were announced"),
        SetWriter(tmp_path / "more", ABOUT, 2) as writer,
    ):
        writer.append(sequences(3))
    with (
        pytest.raises(LorsaError, match="2 sequences are still to be written"),
        SetWriter(tmp_path / "fewer", ABOUT, 4) as writer,
    ):
        writer.append(sequences(2))
    assert not list(tmp_path.glob("*/manifest.json"))


@pytest.mark.parametrize("element_type", ["bf16", "fp16", "fp32"])
def test_numbers_are_rounded_as_torch_rounds_them(element_type: str) -> None:
    random = np.random.default_rng(1)
    some = random.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    ties = (np.arange(1 << 16, dtype=np.uint32) << 16 | 0x8000).view(np.float32)
    values = np.concatenate([some, ties, np.array([np.inf, -np.inf, 65520, 3.4e38], np.float32)])
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[element_type]
    got = to_float32(from_float32(values, element_type), element_type)
    want = torch.from_numpy(values).to(dtype).float().numpy()
    np.testing.assert_array_equal(got, want)  # NaN equals NaN here
