"""How many CPUs this process may keep busy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def usable_cpus(root: Path = Path("/")) -> int:
    """The fewest of the machine's cores, the process' affinity and its control groups' quota.

    A quota (cgroup v2 or v1) is rounded down to whole CPUs; at least 1. The same rule as lorsad's.

    Args:
        root: where /proc and /sys are found.
    """
    fewest = min(os.cpu_count() or 1, len(os.sched_getaffinity(0)), *_quotas(root))
    return max(fewest, 1)


def limit_torch_threads() -> int:
    """Has PyTorch use no more threads than `usable_cpus`; returns how many it uses."""
    import torch

    torch.set_num_threads(min(torch.get_num_threads(), usable_cpus()))
    return torch.get_num_threads()


def _quotas(root: Path) -> Iterator[int]:
    """Whole CPUs of each quota that bounds this process."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0":
            for folder in _folders(root / "sys/fs/cgroup", group):
                yield from _whole_cpus(_read(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for mount in {"cpu", controllers}:
                for folder in _folders(root / "sys/fs/cgroup" / mount, group):
                    files = (folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us")
                    yield from _whole_cpus([_read(file).strip() for file in files])


def _folders(mount: Path, group: str) -> Iterator[Path]:
    """The group's folder and those above it, whose quotas bound it too."""
    parts = [part for part in group.split("/") if part]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])


def _whole_cpus(words: list[str]) -> Iterator[int]:
    """`words`: microseconds of quota and of period; anything else is no quota."""
    if len(words) == 2 and all(word.isascii() and word.isdigit() for word in words):
        quota, period = map(int, words)
        if period > 0:
            yield quota // period


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
