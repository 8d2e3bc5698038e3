"""What a job's progress looks like in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lorsa.client.progress import NotebookView, TerminalView, follow
from lorsa.v1 import job_pb2


def progress(step: int, phase: str, **values: float) -> job_pb2.JobProgress:
    values |= {"tokens": 100 * step, "total_tokens": 400}
    reported = [job_pb2.ProgressValue(name=name, value=value) for name, value in values.items()]
    return job_pb2.JobProgress(step=step, total_steps=4, phase=phase, values=reported)


PROGRESS = [
    progress(0, "initializing"),
    progress(1, "training", loss=3.5),
    progress(4, "training", loss=1.5, fvu=0.25),
]


class PlayedJob:
    """A job whose watch is known beforehand."""

    def watch(self) -> Iterator[object]:
        yield job_pb2.Job(name="jobs/played")
        yield job_pb2.JobEvent(revision=1)
        yield from PROGRESS

    def refresh(self) -> PlayedJob:
        return self


def test_a_notebook_shows_both_curves_and_where_the_job_is() -> None:
    shown: list[str] = []
    job = PlayedJob()
    assert follow(job, NotebookView("a<b", shown.append)) is job  # type: ignore[arg-type]
    assert len(shown) == len(PROGRESS)
    assert "a&lt;b: training, 100%" in shown[-1]
    assert "FVU (top: 0.25)" in shown[-1]
    assert "loss (top: 3.5)" in shown[-1]


def test_a_terminal_shows_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    follow(PlayedJob(), TerminalView("demo"))  # type: ignore[arg-type]
    bar = capsys.readouterr().err
    assert "demo: 100%" in bar
    assert "loss 1.5 fvu 0.25" in bar
