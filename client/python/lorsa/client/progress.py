"""Watching a job: a bar in a terminal, a curve in a notebook."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from typing import Any, Protocol

from tqdm import tqdm

from lorsa.client.blocking import Job
from lorsa.client.cursors import JobUpdate
from lorsa.client.records import progress_values
from lorsa.curve import svg_curve
from lorsa.v1 import job_pb2


class View(Protocol):
    """Shows a job's progress."""

    def update(self, progress: job_pb2.JobProgress) -> None:
        """About once a second."""

    def close(self) -> None:
        """The job has ended."""


def show_progress(job: Job) -> Job:
    """Shows the job's progress until it has ended, and returns it as it then is.

    In a notebook a curve of the held-out FVU and the training loss, elsewhere a bar.
    """
    return follow(job, NotebookView(job.id) if _in_notebook() else TerminalView(job.id))


def follow(job: Job, view: View) -> Job:
    """The same with a view of one's own."""
    try:
        for update in job.watch():
            if (progress := _progress_of(update)) is not None and progress.total_steps > 0:
                view.update(progress)
    finally:
        view.close()
    return job.refresh()


class TerminalView:
    """A tqdm bar: over the tokens of a training job, over the steps of any other."""

    def __init__(self, title: str) -> None:
        self._bar: Any = tqdm(desc=title, unit="tok", unit_scale=True)

    def update(self, progress: job_pb2.JobProgress) -> None:
        values = progress_values(progress)
        if "total_tokens" in values:
            self._bar.total, self._bar.n = values.pop("total_tokens"), values.pop("tokens", 0)
        else:
            self._bar.unit = "step"
            self._bar.total, self._bar.n = progress.total_steps, progress.step
        figures = [f"{name} {value:.4g}" for name, value in values.items()]
        self._bar.set_postfix_str(" ".join([progress.phase, *figures]))

    def close(self) -> None:
        self._bar.close()


class NotebookView:
    """The FVU and the loss against tokens, where the job reports them, redrawn in place."""

    def __init__(self, title: str, display: Callable[[str], None] | None = None) -> None:
        """`display` shows HTML in place of what it showed before; default: IPython's."""
        self._title = title
        self._display = display or _ipython_display()
        self._fvu: list[tuple[float, float]] = []
        self._loss: list[tuple[float, float]] = []

    def update(self, progress: job_pb2.JobProgress) -> None:
        values = progress_values(progress)
        at = values.get("tokens", float(progress.step))
        if progress.step > 0 and "loss" in values:
            self._loss.append((at, values["loss"]))
        if "fvu" in values and (not self._fvu or self._fvu[-1][1] != values["fvu"]):
            self._fvu.append((at, values["fvu"]))
        share = progress.step / progress.total_steps
        head = f"{html.escape(self._title)}: {html.escape(progress.phase)}, {share:.0%}"
        curves = svg_curve("FVU", self._fvu) + svg_curve("loss", self._loss)
        self._display(f"<p>{head}</p><div style='display:flex'>{curves}</div>")

    def close(self) -> None:
        """The last curve stays."""


def _progress_of(update: JobUpdate) -> job_pb2.JobProgress | None:
    if isinstance(update, job_pb2.Job):
        return update.progress
    return update if isinstance(update, job_pb2.JobProgress) else None


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _ipython_display() -> Callable[[str], None]:
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    return lambda text: handle.update(HTML(text))
