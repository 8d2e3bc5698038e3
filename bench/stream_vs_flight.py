#!/usr/bin/env python3
"""The comparison behind bench/stream_vs_flight.sh; last line "ratio R"."""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from measure import cpu_seconds, load_average, paired_ratio
from service import BIN, Service, wait_for

PEER = Path(__file__).with_name("flight_peer.py")
STREAM_BENCH = BIN / "stream_bench"
BATCHES = (1, 8)  # sequences per message of the peer: as many as ours at this size, and more


def run(command: list[str | Path]) -> list[str]:
    """The lines that it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return done.stdout.splitlines()


@dataclass
class Server:
    """One server and the client that receives the whole set from it."""

    name: str
    pid: int
    client: list[str | Path]
    megabytes_per_second: list[float] = field(default_factory=list)
    server_cpu_per_gigabyte: list[float] = field(default_factory=list)

    def visit(self, passes: int, gigabytes: float) -> None:
        """A client of its own, which receives the set once unmeasured and then `passes` times."""
        before = cpu_seconds(self.pid)
        line = run([*self.client, "--passes", str(passes)])[-1]
        used = cpu_seconds(self.pid) - before
        self.megabytes_per_second.append(float(line.removeprefix("MB/s ")))
        self.server_cpu_per_gigabyte.append(used / (gigabytes * (passes + 1)))


@contextlib.contextmanager
def flight_server(folder: Path, sequences: int) -> Iterator[Server]:
    endpoint = folder / f"flight-{sequences}"
    arrow = folder / f"batches-of-{sequences}.arrow"
    run([sys.executable, PEER, "convert", folder / "sets/bench", arrow, str(sequences)])
    process = subprocess.Popen([sys.executable, PEER, "serve", arrow, endpoint])
    try:
        wait_for("the Flight server", endpoint.exists)
        client: list[str | Path] = [sys.executable, PEER, "receive", endpoint.read_text()]
        name = f"Arrow Flight, {sequences} sequence{'s' if sequences > 1 else ''} a batch"
        yield Server(name, process.pid, client)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def lorsad(folder: Path) -> Iterator[Server]:
    # No job runs here, so any program does as a worker.
    with Service(folder, "--log-level", "warn", "--worker-binary", "/bin/true") as service:
        service.cli("set", "register", "bench", folder / "sets/bench")
        assert service.process is not None
        client: list[str | Path] = [STREAM_BENCH, "stream", "--server", service.address]
        yield Server("StreamSequences", service.process.pid, client)


def check_the_bytes(servers: list[Server]) -> None:
    """Both must send the very sequences of the set, in whatever order."""
    digests = {run([*server.client, "--digest"])[-1] for server in servers}
    if len(digests) != 1:
        sys.exit(f"the servers sent different bytes: {digests}")
    print(f"Same bytes on all sides: {digests.pop()}")


def report(servers: list[Server]) -> float:
    """Ours, the first, over the peer's form with the highest median."""
    print("| server | MB/s, median | slowest | fastest | CPU s of the server per GB |")
    print("|---|---|---|---|---|")
    for server in servers:
        rates = server.megabytes_per_second
        print(
            f"| {server.name} | {statistics.median(rates):.0f} | {min(rates):.0f} "
            f"| {max(rates):.0f} | {statistics.median(server.server_cpu_per_gigabyte):.2f} |"
        )
    ours, *peers = (server.megabytes_per_second for server in servers)
    return paired_ratio(ours, max(peers, key=statistics.median))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--passes", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        size = ["--sequences", str(args.sequences)]
        run([STREAM_BENCH, "make-set", folder / "sets/bench", *size])
        gigabytes = sum(shard.stat().st_size for shard in folder.glob("sets/bench/*.h5")) / 1e9
        servers = [stack.enter_context(lorsad(folder))]
        servers += [stack.enter_context(flight_server(folder, batch)) for batch in BATCHES]
        check_the_bytes(servers)
        for _ in range(args.rounds):
            for server in servers:
                server.visit(args.passes, gigabytes)
            print(f"{servers[0].megabytes_per_second[-1]:.0f} MB/s; {load_average()}", flush=True)
        print(f"ratio {report(servers):.2f}")


if __name__ == "__main__":
    main()
