"""Batches read in Python are what the server streams for the same seed and cursor, bit for bit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from lorsa import SequenceDataset
from service import Service
from synthetic_set import CONTEXT, D_MODEL


@pytest.mark.parametrize(
    ("subset", "seed", "cursor"),
    [("training", 0, 0), ("training", (1 << 64) - 1, 170), ("held_out", 0, 100)],
)
def test_the_order_is_the_servers(
    subset: str,
    seed: int,
    cursor: int,
    lorsad: Service,
    api: SimpleNamespace,
    stubs: SimpleNamespace,
) -> None:
    folder = lorsad.add_set(sequences=300)  # 172 of them for training
    messages = api.activation_service_pb2
    request = messages.StreamSequencesRequest(
        name="activationSets/set",
        subset=messages.SequenceSubset.Value(f"SEQUENCE_SUBSET_{subset.upper()}"),
        seed=seed,
        cursor=cursor,
        limit=20,
    )
    ours = SequenceDataset(folder, 20, subset=subset, seed=seed, cursor=cursor, limit=20)
    (batch,) = ours
    streamed = list(stubs.activation.StreamSequences(request))
    shapes = {"mhsa_input": (-1, CONTEXT, D_MODEL), "tokens": (-1, CONTEXT), "mask": (-1, CONTEXT)}
    shapes["mhsa_output"] = shapes["mhsa_input"]
    for name, shape in shapes.items():
        got = getattr(batch, name).numpy()
        content = b"".join(getattr(part, name) for part in streamed)
        want = np.frombuffer(content, got.dtype).reshape(shape)
        np.testing.assert_array_equal(got, want)
