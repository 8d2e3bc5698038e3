"""What a tracker must do, and which one a command line names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from lorsa.client import Checkpoint, Job
from lorsa.errors import LorsaError
from lorsa.v1 import metric_service_pb2
from lorsa.v1.metric_service_pb2 import MetricPoint

Key = tuple[str, int]  # tag and step: one number in a tracker


class Sink(Protocol):
    """A tracker that is open for one job."""

    keeps_files: bool  # whether `add_checkpoint` works

    def known(self) -> set[Key]:
        """What the tracker has of this job already, from an earlier run of the command."""

    def add(self, point: MetricPoint, values: dict[str, float]) -> None:
        """Some numbers of one step, by tag. Durable when `close` returns."""

    def add_checkpoint(self, checkpoint: Checkpoint, folder: Path) -> None:
        """The files of a downloaded checkpoint; does nothing if the tracker has them."""

    def close(self, state: str) -> None:
        """`state`: the job's, or RUNNING if the command was interrupted."""


def tagged(point: MetricPoint) -> Iterator[tuple[str, float]]:
    """Tag and number of each metric of a point: evaluation/fvu, training/loss, …"""
    kind = metric_service_pb2.MetricKind.Name(point.kind).removeprefix("METRIC_KIND_").lower()
    for name in sorted(point.values):
        yield f"{kind}/{name}", point.values[name]
    yield f"{kind}/tokens", float(point.tokens)


def open_sink(target: str, job: Job) -> Sink:
    """`tensorboard:DIR`, `mlflow:URI`, `wandb` or `wandb:PROJECT`; LorsaError for anything else."""
    kind, _, where = target.partition(":")
    try:
        if kind == "tensorboard" and where:
            from lorsa.track.tensorboard import TensorBoard

            return TensorBoard(Path(where), job)
        if kind == "mlflow" and where:
            from lorsa.track.mlflow import MLflow

            return MLflow(where, job)
        if kind == "wandb":
            from lorsa.track.wandb import WandB

            return WandB(where or "lorsa", job)
    except ImportError as error:
        raise LorsaError(f"{kind} is not installed: pip install 'lorsa[trackers]'.") from error
    raise LorsaError(f"--to {target} is not tensorboard:DIR, mlflow:URI, wandb or wandb:PROJECT.")


def configuration(job: Job) -> dict[str, Any]:
    """The resolved specification, flat: names and values."""
    spec = job.proto.resolved_spec
    spec = getattr(spec, spec.WhichOneof("spec"))
    return {field.name: value for field, value in spec.ListFields()}
