"""TensorBoard event files, written and read with TensorBoard's own code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from lorsa.client import Checkpoint, Job
from lorsa.track.sink import Key
from lorsa.v1.metric_service_pb2 import MetricPoint

_ALL = 0  # EventAccumulator keeps all events of a kind


class TensorBoard:
    """One run folder per job: DIR/JOB."""

    keeps_files = False

    def __init__(self, folder: Path, job: Job) -> None:
        self._folder = folder / job.id
        self._known = _scalars(self._folder)
        self._writer: Any = EventFileWriter(str(self._folder))
        if not self._known:
            self._add_text("configuration", f"```\n{job.proto.resolved_spec}```", job)

    def known(self) -> set[Key]:
        return self._known

    def add(self, point: MetricPoint, values: dict[str, float]) -> None:
        summary = Summary(
            value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        )
        when = point.time.seconds + point.time.nanos * 1e-9
        self._writer.add_event(Event(wall_time=when, step=point.step, summary=summary))

    def add_checkpoint(self, checkpoint: Checkpoint, folder: Path) -> None:
        raise NotImplementedError("TensorBoard keeps no files")

    def close(self, state: str) -> None:
        self._writer.flush()
        self._writer.close()

    def _add_text(self, tag: str, text: str, job: Job) -> None:
        plugin = SummaryMetadata.PluginData(plugin_name="text")
        tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()])
        value = Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin), tensor=tensor)
        when = job.proto.create_time.seconds
        self._writer.add_event(Event(wall_time=when, step=0, summary=Summary(value=[value])))


def _scalars(folder: Path) -> set[Key]:
    if not folder.is_dir():
        return set()
    events = EventAccumulator(str(folder), size_guidance={SCALARS: _ALL})
    events.Reload()
    return {(tag, each.step) for tag in events.Tags()[SCALARS] for each in events.Scalars(tag)}
