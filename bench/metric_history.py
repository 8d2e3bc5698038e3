#!/usr/bin/env python3
"""The measurement behind bench/metric_history.sh; last line "slowest_ms T"."""

import argparse
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lorsa.client import Client
from lorsa.v1 import metric_service_pb2
from measure import load_average, resident_megabytes
from service import BIN, PATIENCE, Service

JOB = "jobs/week"
TRAINING = metric_service_pb2.METRIC_KIND_TRAINING
MAX_PAGE = 10_000
Points = list[metric_service_pb2.MetricPoint]


def fill(catalog: Path, points: int) -> None:
    start = time.monotonic()
    subprocess.run([BIN / "metric_history_bench", catalog, str(points)], check=True)
    seconds = time.monotonic() - start
    size = sum(file.stat().st_size for file in catalog.parent.glob("catalog.sqlite*"))
    print(
        f"Stored {points} points of 22 values in {seconds:.0f} s ({points / seconds:.0f} a second, "
        f"1,000 a transaction): {size / 1e9:.2f} GB, {size / points:.0f} bytes a point. "
        f"{load_average()}.\n"
    )


class Queries:
    """Ways to ask for a history, each told how many points it gave."""

    def __init__(self, client: Client, points: int) -> None:
        self.client = client
        self.points = points
        self.random = random.Random(0)

    def kinds(self) -> dict[str, Callable[[], int]]:
        some = ["loss", "fvu"]
        return {
            "all of it thinned to 1,000": lambda: self.query(max_points=1000),
            "all of it thinned to 1,000, two values": lambda: self.query(
                max_points=1000, names=some
            ),
            "all of it thinned to 10,000": lambda: self.query(max_points=MAX_PAGE),
            "a tenth of it thinned to 1,000": self.tenth,
            "an exact page of 1,000 anywhere": lambda: self.page(1000),
            "an exact page of 10,000 anywhere": lambda: self.page(MAX_PAGE),
            "the newest 100": lambda: self.query(start_step=self.points - 99, page_size=100),
            "its evaluations (none)": lambda: self.query(kind=2),
            "streamed, every 10,000th step": lambda: self.stream(every_steps=10_000),
        }

    def query(self, **fields: Any) -> int:
        request = metric_service_pb2.QueryMetricsRequest(**{"job": JOB, "kind": TRAINING, **fields})
        return len(self.client.call(self.client.stubs.metric.QueryMetrics, request).points)

    def tenth(self) -> int:
        start = self.random.randrange(1, self.points * 9 // 10)
        return self.query(start_step=start, end_step=start + self.points // 10, max_points=1000)

    def page(self, size: int) -> int:
        return self.query(start_step=self.random.randrange(1, self.points - size), page_size=size)

    def stream(self, **fields: Any) -> int:
        return sum(len(points) for points in self.messages(**fields))

    def messages(self, **fields: Any) -> Iterator[Any]:
        request = metric_service_pb2.StreamMetricsRequest(job=JOB, history_only=True, **fields)
        method = self.client.stubs.metric.StreamMetrics
        for message in self.client.stream(method, request, PATIENCE):
            yield message.points


def seconds_of(ask: Callable[[], int]) -> tuple[int, float]:
    start = time.perf_counter()
    return ask(), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=21)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        # No job runs here, so any program does as a worker.
        service = Service(Path(name), "--log-level", "warn", "--worker-binary", "/bin/true")
        fill(service.data / "catalog.sqlite", args.points)
        start = time.perf_counter()
        with service:
            opening = time.perf_counter() - start
            assert service.process is not None
            pid = service.process.pid
            print(f"lorsad listens after {opening:.2f} s, {resident_megabytes(pid):.0f} MB.\n")
            print("| asked for | points | ms, median | slowest | lorsad MB after |")
            print("|---|---|---|---|---|")
            slowest = []
            with Client(service.address) as client:
                for what, ask in Queries(client, args.points).kinds().items():
                    found = [seconds_of(ask) for _ in range(args.repeats)]
                    times = [1000 * seconds for _, seconds in found]
                    slowest.append(max(times))
                    print(
                        f"| {what} | {found[0][0]} | {statistics.median(times):.0f} "
                        f"| {max(times):.0f} | {resident_megabytes(pid):.0f} |",
                        flush=True,
                    )
            print(f"\nlorsad's peak: {resident_megabytes(pid, 'VmHWM'):.0f} MB. {load_average()}.")
            print(f"slowest_ms {max(slowest):.0f}")


if __name__ == "__main__":
    main()
