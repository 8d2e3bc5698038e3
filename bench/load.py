#!/usr/bin/env python3
"""The measurement behind bench/load.sh; last line "cost_percent P"."""

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lorsa.aio
from lorsa.client import Client
from lorsa.v1 import checkpoint_service_pb2, job_service_pb2, metric_service_pb2
from measure import Progress, cost_percent, cpu_seconds, load_average, tokens_per_second
from service import BIN, PATIENCE, Service, wait_for

JOB = "jobs/trained"
# The size of the demo: SmolLM2-135M's attention. One thread, so that a core is left to the rest. No
# evaluation and no checkpoint but the first comes in between.
SPEC: dict[str, Any] = {
    "activation_set": "bench",
    "n_ov_heads": 4608,
    "n_qk_heads": 36,
    "d_qk": 64,
    "top_k": 64,
    "threads": 1,
    "sequences_per_step": 8,
    "tokens": 1 << 30,
    "evaluation_interval_tokens": 1 << 30,
    "checkpoint_interval_tokens": 1 << 30,
}
SETTLING_SECONDS = 2.0  # after a change of load, not measured


@dataclass
class Delivered:
    """What the clients received, all of them together."""

    messages: int = 0
    downloaded: int = 0  # bytes


class Load:
    """Clients of one server, each with a connection of its own, all in this process."""

    def __init__(self, server: str, args: argparse.Namespace) -> None:
        self.server = server
        self.args = args
        self.delivered = Delivered()
        self._waiting = 0  # clients without a message yet

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Inside, every client has received something and goes on."""
        clients = [self.watch_job, self.watch_metrics] * self.args.watchers
        clients += [self.download] * self.args.downloads
        self._waiting = len(clients)
        tasks = [asyncio.create_task(client()) for client in clients]
        try:
            while self._waiting > 0:
                await asyncio.sleep(0.05)
                for task in tasks:
                    if task.done():
                        task.result()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def watch_job(self) -> None:
        async with lorsa.aio.Client(self.server) as client:
            request = job_service_pb2.WatchJobRequest(name=JOB)
            await self.count(client.stream(client.stubs.job.WatchJob, request))

    async def watch_metrics(self) -> None:
        async with lorsa.aio.Client(self.server) as client:
            request = metric_service_pb2.StreamMetricsRequest(job=JOB)
            await self.count(client.stream(client.stubs.metric.StreamMetrics, request))

    async def count(self, messages: AsyncIterator[Any]) -> None:
        first = True
        async for _ in messages:
            self.delivered.messages += 1
            self._waiting -= first
            first = False

    async def download(self) -> None:
        """One file of the first checkpoint, again and again, as fast as the pace lets it."""
        async with lorsa.aio.Client(self.server) as client:
            request = checkpoint_service_pb2.ReadFileRequest(
                name=f"{JOB}/checkpoints/step-000000000", file="lorsa.safetensors"
            )
            first = True
            while True:
                async for chunk in client.stream(client.stubs.checkpoint.ReadFile, request):
                    self.delivered.downloaded += len(chunk.data)
                    self._waiting -= first
                    first = False
                    if self.args.mib_per_second > 0:
                        await asyncio.sleep(len(chunk.data) / 2**20 / self.args.mib_per_second)


@dataclass
class Window:
    """A stretch of time in which the load did not change."""

    begin: float  # seconds since the epoch
    end: float
    server_cores: float  # processor time over time
    worker_cores: float
    client_cores: float
    delivered: Delivered


class Windows:
    """Measures processes over stretches of time."""

    def __init__(self, server: int, worker: int, load: Load, seconds: float) -> None:
        self.pids = (server, worker, os.getpid())
        self.load = load
        self.seconds = seconds

    async def measure(self) -> Window:
        await asyncio.sleep(SETTLING_SECONDS)
        begin, before = time.time(), [cpu_seconds(pid) for pid in self.pids]
        self.load.delivered = Delivered()
        await asyncio.sleep(self.seconds)
        end, delivered = time.time(), self.load.delivered
        used = [
            (cpu_seconds(pid) - start) / (end - begin)
            for pid, start in zip(self.pids, before, strict=True)
        ]
        return Window(begin, end, *used, delivered)


async def alternate(windows: Windows, load: Load, pairs: int) -> tuple[list[Window], list[Window]]:
    """Quiet, loaded, quiet, …, quiet."""
    quiet, loaded = [await windows.measure()], []
    for _ in range(pairs):
        async with load.running():
            loaded.append(await windows.measure())
        quiet.append(await windows.measure())
        print(f"| {len(loaded)} of {pairs} pairs measured; {load_average()}", flush=True)
    return quiet, loaded


def progress_of_the_job(client: Client) -> list[Progress]:
    request = metric_service_pb2.StreamMetricsRequest(
        job=JOB, kind=metric_service_pb2.METRIC_KIND_TRAINING, history_only=True
    )
    messages = client.stream(client.stubs.metric.StreamMetrics, request, PATIENCE)
    points = [point for message in messages for point in message.points]
    return [Progress(point.time.ToNanoseconds() / 1e9, point.tokens) for point in points]


def report(points: list[Progress], quiet: list[Window], loaded: list[Window]) -> float:
    rates = {
        name: [tokens_per_second(points, w.begin, w.end) for w in windows]
        for name, windows in (("without", quiet), ("with", loaded))
    }
    print("\n| clients | tokens/s, median | each window | cores: worker | lorsad | clients |")
    print("|---|---|---|---|---|---|")
    for name, windows in (("without", quiet), ("with", loaded)):
        cores = [
            f"{statistics.median(getattr(w, f'{who}_cores') for w in windows):.2f}"
            for who in ("worker", "server", "client")
        ]
        each = " ".join(f"{rate:.0f}" for rate in rates[name])
        print(f"| {name} | {statistics.median(rates[name]):.0f} | {each} | {' | '.join(cores)} |")
    per_core = {
        name: [rate / w.worker_cores for rate, w in zip(rates[name], windows, strict=True)]
        for name, windows in (("without", quiet), ("with", loaded))
    }
    print(
        "\nTokens per second of the worker's own processor time, medians: "
        f"{statistics.median(per_core['without']):.0f} without, "
        f"{statistics.median(per_core['with']):.0f} with clients, "
        f"a cost of {cost_percent(per_core['without'], per_core['with']):.1f} %"
    )
    seconds = sum(w.end - w.begin for w in loaded)
    messages = sum(w.delivered.messages for w in loaded) / seconds
    downloaded = sum(w.delivered.downloaded for w in loaded) / seconds / 1e6
    print(f"Delivered under load: {messages:.0f} messages/s, {downloaded:.0f} MB/s of downloads")
    return cost_percent(rates["without"], rates["with"])


@contextlib.contextmanager
def training(folder: Path) -> Iterator[Service]:
    """A server whose job has published its first checkpoint and trains."""
    subprocess.run([BIN / "stream_bench", "make-set", folder / "sets/bench"], check=True)
    with Service(folder, "--log-level", "warn") as service:
        with Client(service.address) as client:
            client.sets.register("bench", folder / "sets/bench")
            job = client.submit(SPEC, "trained")
            wait_for("the first steps", lambda: len(job.metrics("training")) > 2, 5 * PATIENCE)
        yield service


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--downloads", type=int, default=50)
    parser.add_argument("--mib-per-second", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--pairs", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, training(Path(name)) as service:
        assert service.process is not None
        (worker,) = service.worker_pids()
        load = Load(service.address, args)
        windows = Windows(service.process.pid, worker, load, args.seconds)
        quiet, loaded = asyncio.run(alternate(windows, load, args.pairs))
        with Client(service.address) as client:
            points = progress_of_the_job(client)
        print(f"cost_percent {report(points, quiet, loaded):.1f}")


if __name__ == "__main__":
    main()
