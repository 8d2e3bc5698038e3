"""Watching a job: a bar in a terminal, a curve in a notebook."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from typing import Any, Protocol

from tqdm import tqdm

from lorsa.client.blocking import Job
from lorsa.client.cursors import JobUpdate
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
            if (progress := _progress_of(update)) is not None and progress.total_tokens > 0:
                view.update(progress)
    finally:
        view.close()
    return job.refresh()


class TerminalView:
    """A tqdm bar over the run's tokens."""

    def __init__(self, title: str) -> None:
        self._bar: Any = tqdm(desc=title, unit="tok", unit_scale=True)

    def update(self, progress: job_pb2.JobProgress) -> None:
        self._bar.total = progress.total_tokens
        self._bar.n = progress.tokens
        fvu = f"{progress.fvu:.4f}" if progress.HasField("fvu") else "–"
        self._bar.set_postfix_str(f"{progress.phase} loss {progress.loss:.4g} fvu {fvu}")

    def close(self) -> None:
        self._bar.close()


class NotebookView:
    """The FVU and the loss against tokens, redrawn in place."""

    def __init__(self, title: str, display: Callable[[str], None] | None = None) -> None:
        """`display` shows HTML in place of what it showed before; default: IPython's."""
        self._title = title
        self._display = display or _ipython_display()
        self._fvu: list[tuple[float, float]] = []
        self._loss: list[tuple[float, float]] = []

    def update(self, progress: job_pb2.JobProgress) -> None:
        tokens = float(progress.tokens)
        if progress.step > 0:
            self._loss.append((tokens, progress.loss))
        if progress.HasField("fvu") and (not self._fvu or self._fvu[-1][1] != progress.fvu):
            self._fvu.append((tokens, progress.fvu))
        share = progress.tokens / progress.total_tokens
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
