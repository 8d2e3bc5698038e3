"""Evaluates a Lorsa on the held-out sequences of a set, by the definitions of docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from lorsa.activation_set import ActivationSet
from lorsa.errors import LorsaError
from lorsa.model import Lorsa

_DENSE_RATE = 0.1  # a head that fires at more than this share of tokens is dense


def evaluate(
    lorsa: Lorsa, activations: ActivationSet, batch_sequences: int = 8
) -> dict[str, float]:
    """Metrics over all unmasked held-out tokens. Runs on the device of the Lorsa's weights."""
    about = activations.manifest.description
    if about.d_model != lorsa.config.d_model:
        raise LorsaError(
            f"The Lorsa has d_model {lorsa.config.d_model}, the set {about.d_model}: "
            "evaluate it on a set of its own layer."
        )
    sums = _Sums(lorsa.config.n_ov_heads)
    with torch.no_grad():
        for x_BSd, y_BSd, mask_BS in _batches(lorsa, activations, batch_sequences):
            acts_BSH = lorsa.encode(x_BSd)
            reconstruction_Td = lorsa.decode(acts_BSH)[mask_BS]
            sums.add(acts_BSH[mask_BS], reconstruction_Td, y_BSd[mask_BS])
    return sums.metrics()


def _batches(
    lorsa: Lorsa, activations: ActivationSet, size: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    device = next(lorsa.parameters()).device
    held_out = activations.held_out
    for start, stop in pairwise([*range(held_out.start, held_out.stop, size), held_out.stop]):
        part = activations.read(start, stop - start)
        arrays = (part.mhsa_input, part.mhsa_output, part.mask)
        x, y, mask = (torch.from_numpy(array).to(device) for array in arrays)
        if mask.any():
            yield x, y, mask


class _Sums:
    """What the metrics need of all targets, accumulated in double precision."""

    def __init__(self, n_ov_heads: int) -> None:
        self._tokens = 0
        self._batches = 0
        self._squared_error = 0.0
        self._squared_target = 0.0
        self._target: Tensor | float = 0.0  # [d]
        self._cosine = 0.0
        self._explained = 0.0
        self._explained_legacy = 0.0
        self._fired = torch.zeros(n_ov_heads, dtype=torch.int64)  # tokens, by head

    def add(self, acts_TH: Tensor, reconstruction_Td: Tensor, y_Td: Tensor) -> None:
        """One batch's unmasked tokens."""
        y_Td, reconstruction_Td = y_Td.double(), reconstruction_Td.double()
        error_T = (y_Td - reconstruction_Td).square().sum(-1)
        spread_T = (y_Td - y_Td.mean(0)).square().sum(-1)
        self._tokens += len(y_Td)
        self._batches += 1
        self._squared_error += float(error_T.sum())
        self._squared_target += float(y_Td.square().sum())
        self._target = self._target + y_Td.sum(0)
        self._cosine += float(torch.cosine_similarity(y_Td, reconstruction_Td, dim=-1).sum())
        self._explained += float(1 - error_T.mean() / spread_T.mean())
        self._explained_legacy += float((1 - error_T / spread_T).sum())
        self._fired += (acts_TH != 0).sum(0).cpu()

    def metrics(self) -> dict[str, float]:
        """By the names of docs/metrics.md."""
        if self._tokens == 0:
            raise LorsaError("The set's held-out sequences have no unmasked token.")
        mean_target = torch.as_tensor(self._target) / self._tokens
        spread = self._squared_target - self._tokens * float(mean_target.square().sum())
        return {
            "fvu": self._squared_error / spread,
            "explained_variance": self._explained / self._batches,
            "explained_variance_legacy": self._explained_legacy / self._tokens,
            "mse": self._squared_error / self._tokens,
            "cosine": self._cosine / self._tokens,
            "l0": float(self._fired.sum()) / self._tokens,
            "dead_fraction": float((self._fired == 0).double().mean()),
            "dense_fraction": float((self._fired > _DENSE_RATE * self._tokens).double().mean()),
            "tokens": self._tokens,
        }
