"""The CPUs that a process may keep busy, on control group trees of the test's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from lorsa import cpus


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))


def test_without_a_group_the_affinity_counts(tmp_path: Path) -> None:
    assert cpus.usable_cpus(tmp_path) == 6


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", 6), ("350000 100000", 3), ("20000 100000", 1), ("many 100000", 6), ("", 6)],
)
def test_follows_the_quota_of_version_2(tmp_path: Path, quota: str, expected: int) -> None:
    put(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    put(tmp_path, "sys/fs/cgroup/a/b/cpu.max", quota + "\n")
    assert cpus.usable_cpus(tmp_path) == expected


def test_a_group_above_may_be_tighter(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    put(tmp_path, "sys/fs/cgroup/a/b/cpu.max", "500000 100000\n")
    put(tmp_path, "sys/fs/cgroup/cpu.max", "200000 100000\n")
    assert cpus.usable_cpus(tmp_path) == 2


@pytest.mark.parametrize("mount", ["cpu,cpuacct/docker/c", "cpu"])
def test_follows_the_quota_of_version_1(tmp_path: Path, mount: str) -> None:
    put(tmp_path, "proc/self/cgroup", "7:cpuset:/\n4:cpu,cpuacct:/docker/c\n")
    put(tmp_path, f"sys/fs/cgroup/{mount}/cpu.cfs_period_us", "100000\n")
    put(tmp_path, f"sys/fs/cgroup/{mount}/cpu.cfs_quota_us", "-1\n")
    assert cpus.usable_cpus(tmp_path) == 6
    put(tmp_path, f"sys/fs/cgroup/{mount}/cpu.cfs_quota_us", "250000\n")
    assert cpus.usable_cpus(tmp_path) == 2


def test_pytorch_uses_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(5)
        monkeypatch.setattr(cpus, "usable_cpus", lambda: 3)
        assert cpus.limit_torch_threads() == 3
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
