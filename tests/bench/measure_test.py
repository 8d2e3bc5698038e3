"""What bench/measure.py computes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from measure import (
    Progress,
    cost_percent,
    cpu_seconds,
    growth_percent,
    paired_ratio,
    resident_megabytes,
    tokens_per_second,
)


def test_a_rate_counts_only_whole_steps_of_its_window() -> None:
    points = [Progress(time=float(second), tokens=100 * second) for second in range(20)]
    points[12] = Progress(12.0, 5000)  # outside of the window
    assert tokens_per_second(points, 2.5, 11.5) == pytest.approx(100)


def test_a_window_without_two_steps_has_no_rate() -> None:
    with pytest.raises(ValueError, match="longer"):
        tokens_per_second([Progress(1.0, 10), Progress(5.0, 20)], 0.0, 4.0)


def test_the_cost_is_free_of_a_steady_drift_and_of_one_odd_window() -> None:
    speed = [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0]
    loaded = [0.95 * rate for rate in speed[1::2]]
    assert cost_percent(speed[::2], loaded) == pytest.approx(5)
    loaded[1] = 1.0
    assert cost_percent(speed[::2], loaded) == pytest.approx(5)


def test_windows_that_do_not_alternate_are_refused() -> None:
    with pytest.raises(ValueError, match="alternate"):
        cost_percent([1.0, 1.0], [1.0, 1.0])


def test_a_slow_round_does_not_count_against_either_side() -> None:
    theirs = [100.0, 20.0, 100.0, 100.0, 90.0]
    ours = [1.1 * rate for rate in theirs]
    assert paired_ratio(ours, theirs) == pytest.approx(1.1)
    with pytest.raises(ValueError):
        paired_ratio([1.0], [])


def test_growth_is_told_from_an_odd_sample() -> None:
    flat = [100.0] * 10
    assert growth_percent([*flat[:-1], 180.0]) == 0
    assert growth_percent([100.0, 100.0, 100.0, 130.0, 150.0, 150.0, 150.0]) == pytest.approx(50)
    with pytest.raises(ValueError, match="too few"):
        growth_percent([100.0] * 5)


def test_a_process_is_measured_from_outside() -> None:
    code = "held = bytearray(80_000_000)\nprint('ready', flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None
            busy.stdout.readline()
            before = cpu_seconds(busy.pid)
            deadline = time.monotonic() + 60
            while cpu_seconds(busy.pid) < before + 0.2 and time.monotonic() < deadline:
                time.sleep(0.02)
            assert cpu_seconds(busy.pid) >= before + 0.2
            assert 80 < resident_megabytes(busy.pid) < 400
            assert resident_megabytes(busy.pid, "VmHWM") >= 80
        finally:
            busy.kill()
    assert resident_megabytes(os.getpid()) > 1
