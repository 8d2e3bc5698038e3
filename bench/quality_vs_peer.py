#!/usr/bin/env python3
"""The comparison behind bench/quality_vs_peer.sh: trains both, prints a table, draws curves."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent
STEPS, STEP_TOKENS, EVALUATION_STEPS = 450, 2048, 50

Curve = dict[int, dict[str, float]]  # tokens -> fvu, dead_fraction


def run(command: list[str], log: Path, stdout: Path | None = None) -> None:
    with log.open("w") as errors, (stdout or log).open("a") as out:
        done = subprocess.run(command, stdout=out, stderr=errors, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed; see {log}")


def train_peer(args: argparse.Namespace, seed: int) -> Curve:
    curve_file = args.work / f"peer-{seed}.jsonl"
    if not (args.reuse_peer and curve_file.exists()):
        data = args.work / "set.pt"
        if not data.exists():
            exporter = [args.exporter, str(BENCH / "export_set.py"), args.set, str(data)]
            run(exporter, args.work / "export.log")
        partial = curve_file.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        script = [args.peer, str(BENCH / "peer_train.py"), "--data", str(data)]
        options = ["--seed", str(seed), "--steps", str(STEPS)]
        run([*script, *options], args.work / f"peer-{seed}.log", partial)
        partial.rename(curve_file)
    points = map(json.loads, curve_file.read_text().splitlines())
    return {point["tokens"]: point for point in points}


def train_ours(args: argparse.Namespace, seed: int, steps: int = STEPS) -> Curve:
    name = f"ours-{seed}" if steps == STEPS else f"ours-{seed}-of-{steps}-steps"
    out = args.work / name
    shutil.rmtree(out, ignore_errors=True)
    interval = EVALUATION_STEPS * STEP_TOKENS
    spec = (
        f'activation_set: "reference" expansion_factor: 8 top_k: 64 seed: {seed} '
        f"tokens: {steps * STEP_TOKENS} evaluation_interval_tokens: {interval} {args.spec}"
    )
    command = [args.worker, "--standalone", spec, "--set", args.set, "--out", str(out)]
    run(command, args.work / f"{name}.log")
    points = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return {p["tokens"]: p["values"] for p in points if p["kind"] == "evaluation"}


def seeds(text: str) -> list[int]:
    return [int(seed) for seed in text.split(",")]


def mean(curves: list[Curve], tokens: int, name: str) -> float:
    return statistics.mean(curve[tokens][name] for curve in curves)


def print_table(ours: list[Curve], peer: list[Curve]) -> None:
    print("| tokens | peer's best FVU | our FVU (mean of seeds) | least and most | ratio |")
    print("|---|---|---|---|---|")
    for tokens in peer[0]:
        values = [curve[tokens]["fvu"] for curve in ours]
        best = min(curve[tokens]["fvu"] for curve in peer)
        print(
            f"| {tokens} | {best:.4f} | {statistics.mean(values):.4f} "
            f"| {min(values):.4f} to {max(values):.4f} | {statistics.mean(values) / best:.3f} |"
        )
    last = max(peer[0])
    dead = [mean(curves, last, "dead_fraction") for curves in (peer, ours)]
    print(f"\ndead fraction at the end: peer {dead[0]:.3f}, ours {dead[1]:.3f}")
    reached = min(curve[last]["fvu"] for curve in peer)
    first = [tokens for tokens in peer[0] if mean(ours, tokens, "fvu") <= reached]
    if first:
        print(f"the peer's last FVU is ours after {first[0]} of its {last} tokens")


def draw(path: str, title: str, ours: list[Curve], peer: list[Curve]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = title  # the same curves give the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for curves, colour, name in ((peer, "tab:orange", "llamascopium"), (ours, "tab:blue", "ours")):
        for number, curve in enumerate(curves):
            tokens = sorted(curve)
            axes.plot(
                [count / 1000 for count in tokens],
                [curve[count]["fvu"] for count in tokens],
                color=colour,
                marker=".",
                linewidth=1,
                label=f"{name} ({len(curves)} seeds)" if number == 0 else None,
            )
    axes.set(title=title, xlabel="training tokens (thousands)", ylabel="held-out FVU", yscale="log")
    axes.set_yticks([0.18, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7])
    axes.yaxis.set_major_formatter("{x:.2f}")
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for required in ("worker", "peer", "exporter", "set", "name"):
        parser.add_argument(f"--{required}", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=seeds, default=[0, 1, 2])
    parser.add_argument("--peer-seeds", type=seeds, default=[0])
    parser.add_argument("--spec", default="")
    parser.add_argument("--reuse-peer", action="store_true")
    parser.add_argument("--plot")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)

    ours = [train_ours(args, seed) for seed in args.seeds]
    half = train_ours(args, args.seeds[0], STEPS // 2)
    peer = [train_peer(args, seed) for seed in args.peer_seeds]
    print_table(ours, peer)
    print(f"our run of half the tokens ends at FVU {half[max(half)]['fvu']:.4f}")
    if args.plot:
        draw(args.plot, args.name, ours, peer)
    last = max(peer[0])
    best = min(curve[last]["fvu"] for curve in peer)
    print(f"fvu_ratio {mean(ours, last, 'fvu') / best:.4f}")


if __name__ == "__main__":
    main()
