"""Progress of a harvest: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TextIO

from tqdm import tqdm

_LINE_INTERVAL_SECONDS = 10.0


class Progress(Protocol):
    """Told of tokens (positions) as they are harvested."""

    def start(self, total: int, done: int) -> None:
        """`done` of `total` tokens were harvested by an earlier run."""

    def advance(self, tokens: int) -> None:
        """`tokens` more are captured and handed to the writer."""

    def end(self) -> None:
        """All are."""


class Bar:
    """A tqdm bar with tokens/s and the time left."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: tqdm[None] | None = None

    def start(self, total: int, done: int) -> None:
        self._bar = tqdm(
            total=total,
            initial=done,
            unit="tok",
            unit_scale=True,
            desc="harvest",
            file=self._stream,
            disable=False,  # whatever the environment says of other bars
        )

    def advance(self, tokens: int) -> None:
        assert self._bar is not None
        self._bar.update(tokens)

    def end(self) -> None:
        assert self._bar is not None
        self._bar.close()


class Lines:
    """A line every ten seconds and one at the end."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._stream = stream
        self._clock = clock

    def start(self, total: int, done: int) -> None:
        self._total, self._done, self._before = total, done, done
        self._shown = -1  # tokens in the newest line
        self._began = self._last = self._clock()

    def advance(self, tokens: int) -> None:
        self._done += tokens
        if (now := self._clock()) - self._last >= _LINE_INTERVAL_SECONDS:
            self._last = now
            self._print(now)

    def end(self) -> None:
        if self._shown != self._done:
            self._print(self._clock())

    def _print(self, now: float) -> None:
        self._shown = self._done
        rate = (self._done - self._before) / max(now - self._began, 1e-9)
        print(
            f"harvest: {self._done} of {self._total} tokens, {rate:.0f} tokens/s",
            file=self._stream,
            flush=True,
        )
