"""Batches for torch: their order, their split over worker processes, going on from a cursor."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from lorsa import ActivationSet, SequenceDataset
from lorsa.errors import LorsaError
from lorsa.sequence_dataset import Batch

Harvest = Callable[..., list[Path]]
TRAINING = 12


@pytest.fixture(scope="module")
def sealed(run_harvest: Harvest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve training sequences and 128 that are held out, in bf16."""
    out = tmp_path_factory.mktemp("sealed") / "set"
    return run_harvest(out, dtype="bf16", tokens=16 * 140, sequences_per_shard=64)[0]


def _expected(folder: Path, cursors: range, seed: int) -> list[torch.Tensor]:
    with ActivationSet(folder) as activations:
        order = activations.training_order(seed)
        return [torch.from_numpy(activations.read(order.at(c)).mhsa_input[0]) for c in cursors]


def _same(batch: Batch, sequences: list[torch.Tensor]) -> bool:
    return torch.equal(batch.mhsa_input, torch.stack(sequences))


def test_batches_follow_the_keyed_order_across_epochs(sealed: Path) -> None:
    batches = list(islice(SequenceDataset(sealed, 5, seed=3), 6))
    want = _expected(sealed, range(30), 3)
    for number, batch in enumerate(batches):
        assert _same(batch, want[5 * number : 5 * number + 5])
        assert batch.next_cursor == 5 * (number + 1)
    assert batches[0].mhsa_input.dtype == torch.float32
    assert batches[0].mask.dtype == torch.bool


def test_a_cursor_goes_on_where_it_stood(sealed: Path) -> None:
    whole = list(islice(SequenceDataset(sealed, 4, seed=1), 5))
    rest = SequenceDataset(sealed, 4, seed=1, cursor=whole[1].next_cursor)
    for want, got in zip(whole[2:], rest, strict=False):
        assert torch.equal(got.mhsa_output, want.mhsa_output)
        assert got.next_cursor == want.next_cursor


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_worker_processes_give_the_same_batches_in_the_same_order(
    sealed: Path, workers: int
) -> None:
    dataset = SequenceDataset(sealed, 3, seed=2, cursor=5, limit=23)
    alone = list(DataLoader(dataset, batch_size=None))
    shared = list(DataLoader(dataset, batch_size=None, num_workers=workers))
    assert [len(batch.tokens) for batch in shared] == [3] * 7 + [2]
    for want, got in zip(alone, shared, strict=True):
        assert isinstance(got, Batch)
        assert got.next_cursor == want.next_cursor
        for ours, theirs in zip(got[:4], want[:4], strict=True):
            assert torch.equal(ours, theirs)


def test_held_out_sequences_come_once_in_stored_order(sealed: Path) -> None:
    batches = list(SequenceDataset(sealed, 100, subset="held_out", cursor=1))
    assert [len(batch.tokens) for batch in batches] == [100, 27]
    with ActivationSet(sealed) as activations:
        want = torch.from_numpy(activations.read(TRAINING + 1, 127).mhsa_input)
    assert torch.equal(torch.cat([batch.mhsa_input for batch in batches]), want)
    assert list(SequenceDataset(sealed, subset="held_out", limit=0)) == []


def test_the_sets_own_element_type(sealed: Path) -> None:
    own, numbers = (next(iter(SequenceDataset(sealed, dtype=d))) for d in (None, torch.float32))
    assert own.mhsa_input.dtype == torch.bfloat16
    assert torch.equal(own.mhsa_input.float(), numbers.mhsa_input)


def test_what_cannot_be_iterated_is_refused(
    sealed: Path, run_harvest: Harvest, tmp_path: Path
) -> None:
    for wrong in ({"subset": "test"}, {"batch_sequences": 0}, {"cursor": -1}, {"limit": -1}):
        with pytest.raises(ValueError, match="must be"):
            SequenceDataset(sealed, **wrong)
    (small,) = run_harvest(tmp_path / "small")
    with pytest.raises(LorsaError, match="all of them held out"):
        SequenceDataset(small)
