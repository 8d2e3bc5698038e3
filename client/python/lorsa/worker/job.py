"""A job as its worker program sees it."""

from __future__ import annotations

import enum
import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from lorsa.errors import LorsaError
from lorsa.file_digest import FileDigest
from lorsa.files import new_folder, read_bounded
from lorsa.strict_json import parse_object
from lorsa.v1.job_pb2 import JobProgress
from lorsa.v1.metric_service_pb2 import MetricKind, MetricPoint
from lorsa.v1.worker_service_pb2 import (
    COMMAND_UNSPECIFIED,
    CheckpointStaged,
    Welcome,
    WorkerBootstrap,
)
from lorsa.worker.session import Session

MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 1 << 20
_RETRY_SECONDS = 5.0

Value = float | tuple[float, str]  # with its unit


class Ending(enum.Enum):
    """How the work of an attempt ended."""

    DONE = "the job is done"
    STOPPED = "stop_requested was true; the next attempt resumes from the newest checkpoint"


class JobFailedError(LorsaError):
    """Ends the job as FAILED: trying again cannot help."""

    def __init__(self, message: str, reason: str = "WORKER_ERROR") -> None:
        """`reason`: for programs, UPPER_SNAKE_CASE, at most 64 bytes; `message`: one sentence."""
        super().__init__(message)
        self.reason = reason


class Job:
    """One attempt of a job. Methods may be called from any thread, `checkpoint` from one at a time.

    Every method may raise RefusedError or ServerAwayError, which the program lets pass.
    """

    def __init__(self, session: Session, bootstrap: WorkerBootstrap, welcome: Welcome) -> None:
        self._session, self._bootstrap, self._welcome = session, bootstrap, welcome
        spec = welcome.resolved_spec.program
        self.name: str = bootstrap.job
        self.attempt: int = bootstrap.attempt
        self.kind: str = spec.kind
        self.threads: int = spec.threads
        # Numbers are floats, as JSON has them.
        self.parameters: dict[str, Any] = json_format.MessageToDict(spec.parameters)
        # Folder of the job's activation set; None if it reads none.
        self.set_folder: Path | None = None
        if welcome.HasField("activation_set"):
            self.set_folder = Path(welcome.activation_set.path)

    @property
    def stop_requested(self) -> bool:
        """Whether to stop: publish a checkpoint if there is something to keep, and return
        Ending.STOPPED. Asks for it are a pause, a cancellation, and the stop of the server.
        """
        return self._session.command != COMMAND_UNSPECIFIED

    def resume(self) -> Path | None:
        """Folder of the newest published checkpoint whose files verify; None at the beginning.

        A damaged one is reported to the server, which takes it off its list, and passed over.
        """
        for folder in map(Path, self._welcome.checkpoint_folders):
            try:
                verify_checkpoint(folder)
            except LorsaError as error:
                step = int(folder.name.removeprefix("step-"))
                self._session.add_warning(f"checkpoint {folder.name} is damaged: {error}", step)
            else:
                return folder
        return None

    def report(
        self,
        step: int,
        total_steps: int,
        phase: str = "",
        remaining_seconds: float | None = None,
        **values: Value,
    ) -> None:
        """What watchers see; cheap. Values are numbers, or pairs of a number and its unit.

        A job whose step stands still for its step_timeout (an hour by default) counts as stuck.
        """
        progress = JobProgress(step=step, total_steps=total_steps, phase=phase)
        if remaining_seconds is not None and math.isfinite(remaining_seconds):
            progress.remaining.FromMilliseconds(int(1000 * remaining_seconds))
        for name, value in values.items():
            number, unit = value if isinstance(value, tuple) else (value, "")
            progress.values.add(name=name, value=number, unit=unit)
        self._session.set_progress(progress)

    def log_metrics(
        self, step: int, values: Mapping[str, float], evaluation: bool = False, tokens: int = 0
    ) -> None:
        """A point of the job's metrics. A point of the same kind and step replaces it."""
        kind = MetricKind.METRIC_KIND_EVALUATION if evaluation else MetricKind.METRIC_KIND_TRAINING
        point = MetricPoint(kind=kind, step=step, tokens=tokens, values=dict(values))
        point.time.FromNanoseconds(time.time_ns())
        self._session.add_metrics(point)

    def warn(self, message: str) -> None:
        """Something that the user should know of; one sentence for the job's history."""
        self._session.add_warning(message)

    @contextmanager
    def checkpoint(self, step: int) -> Iterator[Path]:
        """A folder to fill with files, which is published when the `with` block ends without an
        exception: the next attempt resumes from it, and clients download it. The checkpoint of the
        last step is the result of the job.

        Steps count up. While the disk is full this waits; JobFailedError if the server refuses it.
        """
        folder = Path(self._bootstrap.staging_folder) / f"step-{step:09d}"
        with new_folder(folder) as new:
            yield new
            manifest = json.dumps(_manifest(new), indent=2) + "\n"
            (new / MANIFEST).write_text(manifest)
        digest = FileDigest.of(folder / MANIFEST)
        staged = CheckpointStaged(
            folder=folder.name, step=step, manifest_sha256=digest.sha256, scheduled=True
        )
        while True:
            published = self._session.publish(staged)
            if not published.error:
                return
            if not published.retriable:
                raise JobFailedError(f"Checkpoint {folder.name} was refused: {published.error}")
            time.sleep(_RETRY_SECONDS)


def verify_checkpoint(folder: Path) -> None:
    """LorsaError naming the file that is missing or differs from the manifest."""
    path = folder / MANIFEST
    manifest = parse_object(read_bounded(path, _MAX_MANIFEST_BYTES), str(path))
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise LorsaError(f"{path} has no object 'files'.")
    for name, record in files.items():
        found = folder / name
        if Path(name).name != name or not found.is_file():
            raise LorsaError(f"{found} is missing.")
        if asdict(FileDigest.of(found)) != record:
            raise LorsaError(f"{found} differs from {MANIFEST}.")


def _manifest(folder: Path) -> dict[str, Any]:
    files = sorted(folder.iterdir())
    if not files:
        raise LorsaError("A checkpoint needs at least one file: write one into its folder.")
    for path in files:
        if not path.is_file() or path.is_symlink():
            raise LorsaError(f"{path.name} is no regular file; a checkpoint is files alone.")
    return {
        "created": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "files": {path.name: asdict(FileDigest.of(path)) for path in files},
        "format": "lorsa-program-checkpoint-manifest",
        "format_version": 1,
    }
