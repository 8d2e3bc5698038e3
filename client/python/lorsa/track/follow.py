"""From a job to a tracker: each number once, however often it is tried."""

from __future__ import annotations

from pathlib import Path

from lorsa.client import Job
from lorsa.track.sink import Sink, tagged


def send_metrics(job: Job, sink: Sink) -> int:
    """History, then live metrics until the job has ended; returns how many points were new.

    A step that a later attempt computed again is not sent again: it is the same to the bit unless
    the run went back after a NaN.
    """
    known = sink.known()
    new_points = 0
    for point in job.stream_metrics():
        values = {tag: value for tag, value in tagged(point) if (tag, point.step) not in known}
        if values:
            sink.add(point, values)
            known |= {(tag, point.step) for tag in values}
            new_points += 1
    job.refresh()
    return new_points


def send_checkpoints(job: Job, sink: Sink, which: str, folder: Path) -> None:
    """`which`: none, best or all. They are downloaded into `folder` on their way."""
    chosen = {"none": [], "best": ["best"], "all": [each.name for each in job.checkpoints()]}[which]
    for name in chosen:
        checkpoint = job.checkpoint(name.rsplit("/", 1)[-1])
        place = folder / f"step-{checkpoint.step}"
        sink.add_checkpoint(checkpoint, checkpoint.download(place))
