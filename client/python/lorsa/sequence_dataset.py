"""Sequences of a set as batches for torch, in the order in which the server hands them out
(docs/activation_format.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from lorsa.activation_set import ActivationSet
from lorsa.sequence_order import SequenceOrder
from lorsa.torch_bits import from_bits


class Batch(NamedTuple):
    """Sequences that follow each other in the order."""

    mhsa_input: Tensor  # [sequences, context, d_model]
    mhsa_output: Tensor  # [sequences, context, d_model]
    tokens: Tensor  # int32 [sequences, context]
    mask: Tensor  # bool [sequences, context]; True = a target that counts
    next_cursor: int  # sequences consumed after this batch: where to go on from


class SequenceDataset(IterableDataset[Batch]):
    """The batches of a job with the same `seed` and as many sequences a step, from `cursor` on.

        dataset = SequenceDataset("sets/smollm2-l12", 8, seed=0)
        for batch in DataLoader(dataset, batch_size=None, num_workers=2): ...

    It makes the batches itself, hence `batch_size=None`; worker processes then share them out and
    the loader gives the same batches in the same order as without any. Each process opens the set
    by itself and checks each sequence against its checksum.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        batch_sequences: int = 8,
        *,
        subset: str = "training",
        seed: int = 0,
        cursor: int = 0,
        limit: int | None = None,
        dtype: torch.dtype | None = torch.float32,
    ) -> None:
        """`subset`: "training", epoch after epoch without end, or "held_out", in stored order,
        once. `cursor`: sequences already consumed. `limit`: sequences to give; None: no limit.
        `dtype` of the activations; None: the set's own. LorsaError if the set cannot be read.
        """
        if subset not in ("training", "held_out"):
            raise ValueError(f"subset is {subset!r}; it must be 'training' or 'held_out'")
        if batch_sequences < 1 or cursor < 0 or (limit is not None and limit < 0):
            raise ValueError("batch_sequences must be at least 1, cursor and limit at least 0")
        self._folder = Path(folder)
        self._batch_sequences = batch_sequences
        self._cursor = cursor
        self._end = None if limit is None else cursor + limit
        self._dtype = dtype
        with ActivationSet(folder) as activations:
            self._order: SequenceOrder | range = activations.held_out
            if subset == "training":
                self._order = activations.training_order(seed)
            elif self._end is None or self._end > len(activations.held_out):
                self._end = len(activations.held_out)

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        with ActivationSet(self._folder) as activations:
            for number in count(first, stride):
                start = self._cursor + number * self._batch_sequences
                stop = start + self._batch_sequences
                if self._end is not None:
                    stop = min(stop, self._end)
                if start >= stop:
                    return
                yield self._read(activations, start, stop)

    def _index(self, cursor: int) -> int:
        """Of the set."""
        return self._order[cursor] if isinstance(self._order, range) else self._order.at(cursor)

    def _read(self, activations: ActivationSet, start: int, stop: int) -> Batch:
        parts = [activations.read_raw(self._index(cursor)) for cursor in range(start, stop)]
        element_type = activations.manifest.description.element_type
        given = np.concatenate([part.mhsa_input for part in parts])
        returned = np.concatenate([part.mhsa_output for part in parts])
        return Batch(
            mhsa_input=from_bits(given, element_type).to(self._dtype),
            mhsa_output=from_bits(returned, element_type).to(self._dtype),
            tokens=torch.from_numpy(np.concatenate([part.tokens for part in parts])),
            mask=torch.from_numpy(np.concatenate([part.mask for part in parts])).bool(),
            next_cursor=stop,
        )
