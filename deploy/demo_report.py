#!/usr/bin/env python3
"""Compare what the trainer and PyTorch say of the demo's checkpoint, and print a short table.

Exits with 1 if the files are not the ones that the server published, if the two evaluations
disagree, or if the FVU is not below the bound.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import sys

# Two implementations in fp32, summing in another order.
RELATIVE_TOLERANCE = 1e-3


def json_lines(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def seconds_between(begin: str, end: str) -> float:
    def parse(text: str) -> datetime.datetime:
        return datetime.datetime.fromisoformat(text[:19])

    return (parse(end) - parse(begin)).total_seconds()


def check_files(folder: pathlib.Path, files: list[dict]) -> None:
    """Every downloaded file has the sha256 that the server published."""
    for file in files:
        digest = hashlib.sha256((folder / file["name"]).read_bytes()).hexdigest()
        if digest != file["sha256"]:
            sys.exit(f"demo: {file['name']} has sha256 {digest}, the server says {file['sha256']}")
        print(f"  {digest[:16]}…  {file['name']} (verified)")


def check_agreement(trainer: dict[str, float], pytorch: dict[str, float]) -> None:
    for name in ("fvu", "l0"):
        if abs(trainer[name] - pytorch[name]) > RELATIVE_TOLERANCE * abs(trainer[name]):
            sys.exit(f"demo: {name} is {trainer[name]} in the trainer, {pytorch[name]} in PyTorch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--fvu-below", type=float, required=True)
    arguments = parser.parse_args()
    folder: pathlib.Path = arguments.folder

    job = json.loads((folder / "job.json").read_text())
    best = next(
        c for c in json_lines(folder / "checkpoints.jsonl") if c["name"] == job["best_checkpoint"]
    )
    points = {int(p.get("step", 0)): p for p in json_lines(folder / "evaluation.jsonl")}
    trainer = points[int(best["step"])]["values"]
    pytorch = json.loads((folder / "pytorch.json").read_text())

    check_files(folder / "checkpoint", best["files"])
    print(f"\n{'':22}{'trainer':>12}{'PyTorch':>12}")
    for name in ("fvu", "explained_variance", "cosine", "l0", "dead_fraction"):
        print(f"  {name:20}{trainer[name]:12.4f}{pytorch[name]:12.4f}")
    check_agreement(trainer, pytorch)

    print(f"\n{'step':>6}{'tokens':>10}{'FVU':>9}{'L0':>7}{'dead':>7}")
    for step, point in sorted(points.items()):
        values = point["values"]
        print(
            f"{step:6}{int(point.get('tokens', 0)):10}{values['fvu']:9.4f}{values['l0']:7.1f}"
            f"{values['dead_fraction']:7.1%}"
        )
    last = json_lines(folder / "training.jsonl")[-1]
    elapsed = seconds_between(job["start_time"], job["end_time"])
    loss = last["values"]["loss"]
    print(f"\n{last['tokens']} tokens in {elapsed:.0f} s, last training loss {loss:.1f}")
    if not trainer["fvu"] < arguments.fvu_below:
        sys.exit(f"demo: the FVU {trainer['fvu']:.3f} is not below {arguments.fvu_below}")


if __name__ == "__main__":
    main()
