"""`lorsa-convert`: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lorsa.dates import utc_now
from lorsa.errors import LorsaError
from lorsa.manifest import HOOKS, TRANSFORMERS

if TYPE_CHECKING:
    from lorsa.formats.llamascopium import HookPoints
    from lorsa.formats.weights import LorsaWeights
    from lorsa.input_norm import InputNorm

_EXAMPLES = """\
examples:
  lorsa-convert to-llamascopium checkpoints/best lorsa-l12
  lorsa-convert to-llamascopium checkpoints/best lorsa-l12 --hooks transformer-lens \\
      --norm sets/smollm2-l12/attention.safetensors
  lorsa-convert from-llamascopium results/lorsa imported --check sets/smollm2-l12
  lorsa-convert from-cache activations sets/cached --layer-of sets/smollm2-l12
  lorsa-convert to-hub checkpoints/best hub --job job.json --metrics evaluation.jsonl

What the other format cannot express is refused by name (docs/formats.md).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        for note in parsed.run(parsed):
            print(note)
        print(f"wrote {parsed.out}")
    except (LorsaError, OSError) as error:
        print(f"lorsa-convert: {error}", file=sys.stderr)
        return 1
    return 0


def _to_llamascopium(parsed: argparse.Namespace) -> Iterable[str]:
    from lorsa.checkpoint import load_tensors
    from lorsa.formats import llamascopium
    from lorsa.formats.weights import LorsaWeights, to_convention

    weights = LorsaWeights(*load_tensors(parsed.source))
    if parsed.hooks is not None:
        weights = to_convention(weights, HOOKS[parsed.hooks], _norm(parsed, weights))
    llamascopium.export(weights, parsed.out, _hook_points(parsed))
    return ()


def _from_llamascopium(parsed: argparse.Namespace) -> Iterable[str]:
    from contextlib import ExitStack

    from lorsa.activation_set import ActivationSet
    from lorsa.formats import llamascopium
    from lorsa.formats.scale_check import settle_scales

    folder = llamascopium.read(parsed.source, parsed.hooks and HOOKS[parsed.hooks])
    with ExitStack() as stack:
        check = parsed.check and stack.enter_context(ActivationSet(parsed.check))
        weights, notes = settle_scales(folder, check, parsed.scales)
    _write(parsed, weights, "Llamascopium")
    return folder.notes + notes


def _from_original(parsed: argparse.Namespace) -> Iterable[str]:
    from lorsa.formats import original

    weights, notes = original.read(parsed.source, HOOKS[parsed.hooks or "transformer-lens"])
    _write(parsed, weights, "the original Lorsa code")
    return notes


def _write(parsed: argparse.Namespace, weights: LorsaWeights, program: str) -> None:
    """The checkpoint, in the transformers convention if the layer's norm is given."""
    import lorsa
    from lorsa.checkpoint import write_checkpoint
    from lorsa.formats.weights import to_convention

    if parsed.norm is not None:
        weights = to_convention(weights, TRANSFORMERS, _norm(parsed, weights))
    names = {
        "model_name": parsed.model_name or weights.config.model_name,
        "model_revision": parsed.model_revision,
    }
    weights = weights.changed({}, **names)
    origin = f"lorsa-convert {lorsa.__version__}, from {program}"
    write_checkpoint(parsed.out, weights.config, weights.tensors, utc_now(), origin)


def _from_cache(parsed: argparse.Namespace) -> Iterable[str]:
    from lorsa.formats import activation_cache

    origin = activation_cache.CacheOrigin(
        model=parsed.model_name,
        model_revision=parsed.model_revision,
        convention=parsed.hooks and HOOKS[parsed.hooks],
        hooks=_hook_points(parsed),
        layer_of=parsed.layer_of,
    )
    return activation_cache.to_set(parsed.source, parsed.out, origin, utc_now())


def _to_cache(parsed: argparse.Namespace) -> Iterable[str]:
    from lorsa.formats import activation_cache

    activation_cache.from_set(parsed.source, parsed.out, _hook_points(parsed))
    return ()


def _to_hub(parsed: argparse.Namespace) -> Iterable[str]:
    from lorsa.formats import hub

    record = hub.TrainingRecord.read(parsed.job, parsed.metrics)
    hub.export(parsed.source, parsed.out, record, parsed.license)
    return ()


def _norm(parsed: argparse.Namespace, weights: LorsaWeights) -> InputNorm | None:
    from lorsa.input_norm import InputNorm

    return parsed.norm and InputNorm.read(parsed.norm, weights.config.d_model)


def _hook_points(parsed: argparse.Namespace) -> HookPoints | None:
    from lorsa.formats.llamascopium import HookPoints

    if (parsed.hook_in is None) != (parsed.hook_out is None):
        raise LorsaError("--hook-in and --hook-out go together.")
    return None if parsed.hook_in is None else HookPoints(parsed.hook_in, parsed.hook_out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lorsa-convert",
        description="Converts Lorsa checkpoints and activations from and to other formats.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, source: str, help_text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help_text, description=help_text)
        sub.set_defaults(run=run)
        sub.add_argument("source", type=Path, metavar=source)
        sub.add_argument("out", type=Path, metavar="OUT", help="folder to make")
        return sub

    export = command(
        "to-llamascopium", _to_llamascopium, "CHECKPOINT", "a folder that Llamascopium loads"
    )
    _add_hooks(export, "convention of the exported weights (default: the checkpoint's)")
    _add_norm(export)
    _add_hook_points(export)
    theirs = command("from-llamascopium", _from_llamascopium, "DIR", "a folder of Llamascopium's")
    _add_hooks(theirs, "what it was trained on (default: found out)")
    theirs.add_argument("--check", type=Path, metavar="SET", help="activation set of its layer")
    theirs.add_argument("--scales", choices=("folded", "dataset-wise"), help="state of its weights")
    original = command("from-original", _from_original, "DIR", "a folder of the paper's own code")
    _add_hooks(original, "what it was trained on (default transformer-lens)")
    for imported in (theirs, original):
        _add_norm(imported)
        _add_model(imported)
    from_cache = command("from-cache", _from_cache, "CACHE", "an activation cache of theirs")
    _add_hooks(from_cache, "what its inputs are (default: found out)")
    _add_hook_points(from_cache)
    _add_model(from_cache)
    from_cache.add_argument(
        "--layer-of", type=Path, metavar="SET", help="a harvested set of the same layer"
    )
    to_cache = command("to-cache", _to_cache, "SET", "an activation cache for Llamascopium")
    _add_hook_points(to_cache)
    hub = command("to-hub", _to_hub, "CHECKPOINT", "a folder for the Hugging Face hub")
    hub.add_argument("--job", type=Path, required=True, help="output of lorsa --json job show")
    hub.add_argument("--metrics", type=Path, required=True, help="of lorsa --json job metrics")
    hub.add_argument("--license", default="apache-2.0", help="of the weights (default apache-2.0)")
    return parser


def _add_hooks(parser: argparse.ArgumentParser, help_text: str) -> None:
    parser.add_argument("--hooks", choices=tuple(HOOKS), help=help_text)


def _add_norm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--norm", type=Path, metavar="FILE", help="attention.safetensors with the layer's norm"
    )


def _add_hook_points(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hook-in", metavar="NAME", help="their name of the input")
    parser.add_argument("--hook-out", metavar="NAME", help="their name of the output")


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model-name", default="", metavar="NAME", help="the language model")
    parser.add_argument("--model-revision", default="", metavar="TEXT")


if __name__ == "__main__":
    sys.exit(main())
