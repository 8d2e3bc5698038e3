"""`lorsa-evaluate`: the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lorsa.errors import LorsaError

_EXAMPLE = """\
example:
  lorsa-evaluate --checkpoint checkpoints/step-000000100 --set sets/smollm2-l12
  {"cosine": 0.89, "dead_fraction": 0.21, "dense_fraction": 0.0, "explained_variance": 0.74, …}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints one line of JSON; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    from lorsa.activation_set import ActivationSet
    from lorsa.cpus import limit_torch_threads
    from lorsa.evaluation import evaluate
    from lorsa.model import Lorsa

    limit_torch_threads()
    try:
        lorsa = Lorsa.load(parsed.checkpoint)
        with ActivationSet(parsed.set) as activations:
            print(json.dumps(evaluate(lorsa, activations), sort_keys=True))
    except (LorsaError, OSError) as error:
        print(f"lorsa-evaluate: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lorsa-evaluate",
        description="Evaluates a checkpoint in PyTorch on the held-out sequences of an activation "
        "set and prints its metrics (docs/metrics.md) as one line of JSON.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--checkpoint", required=True, type=Path, metavar="DIR", help="checkpoint folder")
    add("--set", required=True, type=Path, metavar="DIR", help="sealed activation set")
    return parser


if __name__ == "__main__":
    sys.exit(main())
