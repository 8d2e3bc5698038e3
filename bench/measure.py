"""What the benchmarks of the running service compute: use of processes, rates, and comparisons."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Processor time of the process so far, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def resident_megabytes(pid: int, field: str = "VmRSS") -> float:
    """Memory of the process now; with `field` VmHWM at its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(f"/proc/{pid}/status has no {field}")


def load_average() -> str:
    """What ran on the machine in the last minute, for the line beside a figure."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


@dataclass(frozen=True)
class Progress:
    """How far a job was."""

    time: float  # seconds since the epoch
    tokens: int


def tokens_per_second(points: Sequence[Progress], begin: float, end: float) -> float:
    """Between the first and the last of the points in [begin, end): free of the window's edges.

    ValueError if fewer than two lie in it.
    """
    inside = [point for point in points if begin <= point.time < end]
    if len(inside) < 2:
        raise ValueError(f"{len(inside)} steps ended in a window: make the windows longer")
    return (inside[-1].tokens - inside[0].tokens) / (inside[-1].time - inside[0].time)


def cost_percent(quiet: Sequence[float], loaded: Sequence[float]) -> float:
    """What the load takes from a rate, in percent: the median over the loaded windows, each against
    the mean of the quiet windows before and after it. A steady drift of the machine cancels out.

    `quiet` has one more than `loaded`.
    """
    if len(quiet) != len(loaded) + 1:
        raise ValueError(f"{len(quiet)} quiet and {len(loaded)} loaded windows do not alternate")
    kept = [
        rate / statistics.mean((before, after))
        for before, rate, after in zip(quiet, loaded, quiet[1:], strict=False)
    ]
    return 100 * (1 - statistics.median(kept))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median over the rounds of ours over theirs: what slowed a whole round cancels out."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def growth_percent(samples: Sequence[float]) -> float:
    """How much the last of the samples exceed the first, in percent: medians of three, so that one
    odd sample does not decide.
    """
    if len(samples) < 6:
        raise ValueError(f"{len(samples)} samples are too few")
    return 100 * (statistics.median(samples[-3:]) / statistics.median(samples[:3]) - 1)
