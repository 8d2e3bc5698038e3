"""MLflow: one run per job in the experiment `lorsa`, found again by its tag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from lorsa.client import Checkpoint, Job
from lorsa.track.sink import Key, configuration
from lorsa.v1.metric_service_pb2 import MetricPoint

EXPERIMENT = "lorsa"
JOB_TAG = "lorsa.job"
_MAX_VALUE = 6000  # characters of a parameter
_STATUS = {"SUCCEEDED": "FINISHED", "FAILED": "FAILED", "CANCELLED": "KILLED"}


class MLflow:
    """A run of a tracking server or store."""

    keeps_files = True

    def __init__(self, uri: str, job: Job) -> None:
        self._client = MlflowClient(tracking_uri=uri)
        # The same id may be used again by another job, of another server or after a deletion.
        self._identity = f"{job.name} {job.proto.create_time.ToJsonString()}"
        self._run = self._find() or self._create(job)

    def known(self) -> set[Key]:
        run = self._client.get_run(self._run)
        return {
            (tag, each.step)
            for tag in run.data.metrics
            for each in self._client.get_metric_history(self._run, tag)
        }

    def add(self, point: MetricPoint, values: dict[str, float]) -> None:
        when = point.time.seconds * 1000 + point.time.nanos // 1_000_000
        metrics = [Metric(tag, value, when, point.step) for tag, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def add_checkpoint(self, checkpoint: Checkpoint, folder: Path) -> None:
        path = f"checkpoints/{checkpoint.name.rsplit('/', 1)[-1]}"
        there = {Path(each.path).name for each in self._client.list_artifacts(self._run, path)}
        for file in sorted(folder.iterdir()):
            if file.name not in there:
                self._client.log_artifact(self._run, str(file), path)

    def close(self, state: str) -> None:
        if state in _STATUS:
            self._client.set_terminated(self._run, _STATUS[state])

    def _find(self) -> str | None:
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            return None
        named = f"tags.`{JOB_TAG}` = '{self._identity}'"
        runs: list[Any] = self._client.search_runs([experiment.experiment_id], named)
        return str(runs[0].info.run_id) if runs else None

    def _create(self, job: Job) -> str:
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        identity = (
            experiment.experiment_id if experiment else self._client.create_experiment(EXPERIMENT)
        )
        run = self._client.create_run(identity, run_name=job.id, tags={JOB_TAG: self._identity})
        parameters = [
            Param(name, str(value).strip()[:_MAX_VALUE])
            for name, value in configuration(job).items()
        ]
        self._client.log_batch(run.info.run_id, params=parameters)
        return str(run.info.run_id)
