"""Metrics as columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorsa.v1.metric_service_pb2 import (
    METRIC_KIND_EVALUATION,
    METRIC_KIND_TRAINING,
    METRIC_KIND_UNSPECIFIED,
    MetricPoint,
)

_KINDS = {
    None: METRIC_KIND_UNSPECIFIED,
    "training": METRIC_KIND_TRAINING,
    "evaluation": METRIC_KIND_EVALUATION,
}


def metric_kind(name: str | None) -> Any:
    """The enum's value of "training", "evaluation" or None for both."""
    if name not in _KINDS:
        raise ValueError(f"{name!r} is not 'training', 'evaluation' or None")
    return _KINDS[name]


class MetricTable:
    """One row per step: `step`, `tokens`, `attempt`, and a column per metric, NaN where absent.

    table["fvu"] is a NumPy array; `to_pandas()` gives all of it with the step as index.
    """

    def __init__(self, points: Iterable[MetricPoint]) -> None:
        rows = sorted(points, key=lambda point: point.step)
        names = sorted({name for row in rows for name in row.values})
        self.columns: dict[str, NDArray[Any]] = {
            key: np.array([getattr(row, key) for row in rows], np.int64)
            for key in ("step", "tokens", "attempt")
        }
        for name in names:
            values = [row.values.get(name, np.nan) for row in rows]
            self.columns[name] = np.array(values, np.float64)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["step"])

    def to_pandas(self) -> Any:
        """A pandas.DataFrame; needs pandas."""
        import pandas

        return pandas.DataFrame(self.columns).set_index("step")
