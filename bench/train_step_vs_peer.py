#!/usr/bin/env python3
"""The comparison behind bench/train_step_vs_peer.sh: Markdown tables; last line "ratio R"."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

BENCH = Path(__file__).parent


@dataclass(frozen=True)
class Size:
    name: str
    d_model: int
    n_ov: int
    n_qk: int
    d_qk: int = 64
    k: int = 64
    context: int = 256
    sequences: int = 8

    def flags(self) -> list[str]:
        values = {
            "d-model": self.d_model,
            "n-ov": self.n_ov,
            "n-qk": self.n_qk,
            "d-qk": self.d_qk,
            "k": self.k,
            "context": self.context,
            "sequences": self.sequences,
        }
        return [text for name, value in values.items() for text in (f"--{name}", str(value))]

    def describe(self) -> str:
        return (
            f"{self.name}: d {self.d_model}, H {self.n_ov}, G {self.n_qk}, D {self.d_qk}, "
            f"K {self.k}, context {self.context}, {self.sequences} sequences a step"
        )


PYTHIA = Size("Pythia-160M", 768, 6144, 48)
SMOLLM2 = Size("SmolLM2-135M", 576, 4608, 36)
LARGE = Size("large", 2048, 16384, 64, k=128, context=1024, sequences=1)


class Bench:
    """Runs one program or the other; each run is a process of its own."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args

    def ours(self, size: Size, precision: str, *extra: str, steps: int | None = None) -> dict:
        return self._run([self.args.ours], size, precision, extra, steps or self.args.steps * 4)

    def peer(self, size: Size, precision: str) -> dict:
        command = [self.args.peer, str(BENCH / "peer_step.py")]
        return self._run(command, size, precision, (), self.args.steps)

    def _run(
        self, command: list[str], size: Size, precision: str, extra: tuple[str, ...], steps: int
    ) -> dict:
        threads = ["--threads", str(self.args.threads), "--steps", str(steps)]
        line = [*command, *size.flags(), *threads, "--precision", precision, *extra]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(line)} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])


def gemm_rate(threads: int, dtype: torch.dtype) -> float:
    """GFLOP/s of this machine's matrix product at the shape of the projections."""
    torch.set_num_threads(threads)
    a, b = torch.randn(2048, 768).to(dtype), torch.randn(768, 6144).to(dtype)
    out = torch.empty(2048, 6144, dtype=dtype)
    seconds = []
    for _ in range(12):
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        seconds.append(time.perf_counter() - start)
    return 2 * 2048 * 768 * 6144 / statistics.median(seconds[2:]) / 1e9


def median_of(runs: list[dict], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def compare(bench: Bench, size: Size) -> float:
    """Prints one size's table; returns our tokens per second over the peer's faster mode's."""
    modes = ["bf16", "fp32"]
    ours: dict[str, list[dict]] = {mode: [] for mode in modes}
    peer: dict[str, list[dict]] = {mode: [] for mode in modes}
    gemm = []
    for _ in range(bench.args.rounds):
        for mode in modes:
            peer[mode].append(bench.peer(size, mode))
            ours[mode].append(bench.ours(size, mode))
        gemm.append(gemm_rate(bench.args.threads, torch.bfloat16))
    print(f"\n### {size.describe()}\n")
    print("| program | mode | median step s | tokens/s | GFLOP/s | peak memory GB |")
    print("|---|---|---|---|---|---|")
    for name, runs in (("peer", peer), ("ours", ours)):
        for mode in modes:
            flops = f"{median_of(runs[mode], 'gflops'):.0f}" if name == "ours" else ""
            print(
                f"| {name} | {mode} | {median_of(runs[mode], 'step_s'):.4f} "
                f"| {median_of(runs[mode], 'tokens_per_s'):.0f} | {flops} "
                f"| {median_of(runs[mode], 'peak_rss_gb'):.2f} |"
            )
    print(f"\nThis machine's bf16 GEMM in the same minutes: {statistics.median(gemm):.0f} GFLOP/s")
    peer_best = max(median_of(peer[mode], "tokens_per_s") for mode in modes)
    ours_best = max(median_of(ours[mode], "tokens_per_s") for mode in modes)
    peer_memory = min(median_of(peer[mode], "peak_rss_gb") for mode in modes)
    ours_memory = max(median_of(ours[mode], "peak_rss_gb") for mode in modes)
    print(f"Speed, ours over the peer's faster mode: {ours_best / peer_best:.2f}")
    print(f"Peak memory, our larger mode over the peer's smaller: {ours_memory / peer_memory:.2f}")
    return ours_best / peer_best


def profile(bench: Bench, size: Size) -> None:
    shares = bench.ours(size, "bf16", "--profile")["profile"]
    print(f"\n### Where the bf16 step goes: {size.name}\n")
    print("| stage | share of the step |")
    print("|---|---|")
    for stage, share in shares.items():
        print(f"| {stage} | {100 * share:.1f} % |")


def growth(bench: Bench) -> None:
    base = PYTHIA
    series = {
        "H (n_ov)": [
            Size("", base.d_model, n_ov, base.n_qk) for n_ov in (1536, 3072, 6144, 12288, 24576)
        ],
        "K": [Size("", base.d_model, base.n_ov, base.n_qk, k=k) for k in (16, 32, 64, 128, 256)],
        "context": [
            Size("", base.d_model, base.n_ov, base.n_qk, context=context, sequences=2048 // context)
            for context in (128, 256, 512, 1024, 2048)
        ],
    }
    print("\n### How the cost grows (ours, bf16; else as Pythia-160M, 2,048 tokens a step)\n")
    print("| varied | value | ms per step | tokens/s | peak memory GB |")
    print("|---|---|---|---|---|")
    for varied, sizes in series.items():
        for size in sizes:
            run = bench.ours(size, "bf16", steps=6)
            value = {"H (n_ov)": size.n_ov, "K": size.k, "context": size.context}[varied]
            print(
                f"| {varied} | {value} | {1000 * run['step_s']:.0f} | {run['tokens_per_s']:.0f} "
                f"| {run['peak_rss_gb']:.2f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true")
    extent.add_argument("--full", action="store_true")
    args = parser.parse_args()
    args.rounds, args.steps = (2, 3) if args.quick else (3, 5)
    bench = Bench(args)

    ratio = compare(bench, PYTHIA)
    if not args.quick:
        compare(bench, SMOLLM2)
    if args.full:
        compare(bench, LARGE)
    profile(bench, PYTHIA)
    if not args.quick:
        growth(bench)
    print(f"\nratio {ratio:.2f}")


if __name__ == "__main__":
    main()
