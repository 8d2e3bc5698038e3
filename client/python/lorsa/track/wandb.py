"""Weights & Biases; with WANDB_MODE=offline it needs no network.

What was sent cannot be read back while offline, so a file beside W&B's own remembers it. A point is
in that file before it is sent: one that a crash cuts off between the two is missing, never doubled.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import wandb

from lorsa.client import Checkpoint, Job
from lorsa.track.sink import Key, configuration
from lorsa.v1.metric_service_pb2 import MetricPoint


class WandB:
    """A run with an id made of the job, so that the command may be given again."""

    keeps_files = True

    def __init__(self, project: str, job: Job) -> None:
        identity = f"{job.name} {job.proto.create_time.ToJsonString()}"
        run_id = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self._run: Any = wandb.init(
            project=project,
            id=run_id,
            name=job.id,
            resume="allow",
            config={name: str(value).strip() for name, value in configuration(job).items()},
        )
        self._run.define_metric("*", step_metric="step")
        self._sent = Path("wandb") / f"lorsa-{run_id}.jsonl"

    def known(self) -> set[Key]:
        if not self._sent.exists():
            return set()
        lines = self._sent.read_text().splitlines()
        return {(tag, step) for tag, step in map(json.loads, lines)}

    def add(self, point: MetricPoint, values: dict[str, float]) -> None:
        with self._sent.open("a") as sent:
            sent.writelines(json.dumps([tag, point.step]) + "\n" for tag in values)
        self._run.log(values | {"step": point.step})

    def add_checkpoint(self, checkpoint: Checkpoint, folder: Path) -> None:
        artifact = wandb.Artifact(checkpoint.name.replace("/", "-"), type="lorsa-checkpoint")
        artifact.add_dir(str(folder))
        self._run.log_artifact(artifact)

    def close(self, state: str) -> None:
        self._run.finish(exit_code=0 if state in ("SUCCEEDED", "RUNNING") else 1)
