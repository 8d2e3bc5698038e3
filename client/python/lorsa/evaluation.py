"""Evaluates a Lorsa on the held-out sequences of a set, by the definitions of docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from lorsa.activation_set import ActivationSet
from lorsa.errors import LorsaError
from lorsa.model import Lorsa

DENSE_SHARE = 0.1  # a head that is active at more than this share of the targets is dense


def evaluate(
    lorsa: Lorsa, activations: ActivationSet, batch_sequences: int = 8
) -> dict[str, float]:
    """Metrics over all unmasked held-out tokens, on the device of the Lorsa's weights.

    The size of a batch enters `explained_variance` and `explained_variance_legacy` alone, which
    compare with the mean target of each batch.
    """
    about = activations.manifest.description
    if about.d_model != lorsa.config.d_model:
        raise LorsaError(
            f"The Lorsa has d_model {lorsa.config.d_model}, the set {about.d_model}: "
            "evaluate it on a set of its own layer."
        )
    if about.hook_convention != lorsa.config.hook_convention:
        raise LorsaError(
            f"The Lorsa reads inputs under {lorsa.config.hook_convention}, the set holds "
            f"{about.hook_convention}: see docs/formats.md for turning one into the other."
        )
    sums = EvaluationSums(lorsa.config.n_ov_heads, lorsa.config.output_scale)
    with torch.no_grad():
        for x_BSd, y_BSd, mask_BS in _batches(lorsa, activations, batch_sequences):
            acts_BSH = lorsa.encode(x_BSd)
            reconstruction_BSd = lorsa.decode(acts_BSH)
            sums.add(acts_BSH[mask_BS], reconstruction_BSd[mask_BS], y_BSd[mask_BS])
    return sums.metrics()


class EvaluationSums:
    """What the metrics need of all targets, accumulated in double precision."""

    def __init__(self, n_ov_heads: int, output_scale: float) -> None:
        self._output_scale = output_scale
        self._targets = 0
        self._squared_error = 0.0
        self._cosine = 0.0
        self._target_sum = torch.zeros(())  # [d] after the first batch
        self._target_squares = 0.0
        self._explained_variance = 0.0  # summed over batches
        self._batches = 0  # that have a variance
        self._unexplained_ratio = 0.0  # summed over tokens
        self._tokens_with_variance = 0
        self._firings = torch.zeros(n_ov_heads, dtype=torch.int64)

    def add(self, acts_TH: Tensor, reconstruction_Td: Tensor, y_Td: Tensor) -> None:
        """One batch's unmasked tokens, in the model's units; a batch without any adds nothing."""
        if len(y_Td) == 0:
            return
        y_Td, reconstruction_Td = y_Td.double(), reconstruction_Td.double()
        error_T = (y_Td - reconstruction_Td).square().sum(-1)
        self._targets += len(y_Td)
        self._squared_error += float(error_T.sum())
        self._cosine += float(torch.cosine_similarity(y_Td, reconstruction_Td, dim=-1).sum())
        self._target_sum = self._target_sum + y_Td.sum(0).cpu()
        self._target_squares += float(y_Td.square().sum())
        self._add_variances(error_T, (y_Td - y_Td.mean(0)).square().sum(-1))
        self._firings += (acts_TH != 0).sum(0).cpu()

    def _add_variances(self, error_T: Tensor, variance_T: Tensor) -> None:
        if (variance := float(variance_T.sum())) > 0:
            self._explained_variance += 1 - float(error_T.sum()) / variance
            self._batches += 1
        varied_T = variance_T > 0
        self._unexplained_ratio += float((error_T / variance_T)[varied_T].sum())
        self._tokens_with_variance += int(varied_T.sum())

    def metrics(self) -> dict[str, float]:
        """By the names of docs/metrics.md; LorsaError if they do not exist."""
        n = max(self._targets, 1)
        variance = self._target_squares - float(self._target_sum.square().sum()) / n
        if variance <= 0 or not self._batches:
            raise LorsaError(
                "The held-out sequences have no two different unmasked targets to evaluate on: "
                "use a larger activation set."
            )
        mse = self._squared_error / n
        return {
            "loss": mse * self._output_scale**2,
            "mse": mse,
            "fvu": self._squared_error / variance,
            "explained_variance": self._explained_variance / self._batches,
            "explained_variance_legacy": 1 - self._unexplained_ratio / self._tokens_with_variance,
            "cosine": self._cosine / n,
            "l0": float(self._firings.sum()) / n,
            "dead_fraction": float((self._firings == 0).double().mean()),
            "dense_fraction": float((self._firings > DENSE_SHARE * n).double().mean()),
            "targets": self._targets,
        }


def _batches(
    lorsa: Lorsa, activations: ActivationSet, size: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    device = next(lorsa.parameters()).device
    held_out = activations.held_out
    for start, stop in pairwise([*range(held_out.start, held_out.stop, size), held_out.stop]):
        part = activations.read(start, stop - start)
        arrays = (part.mhsa_input, part.mhsa_output, part.mask)
        x, y, mask = (torch.from_numpy(array).to(device) for array in arrays)
        yield x, y, mask
