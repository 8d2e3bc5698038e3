"""`lorsa-harvest`: the command line."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lorsa.dates import utc_now
from lorsa.errors import LorsaError
from lorsa.manifest import HOOKS

if TYPE_CHECKING:
    from lorsa.client import Client

_EXAMPLE = """\
example:
  lorsa-harvest --model ~/models/SmolLM2-135M --layer 12 \\
      --text 'books/**/*.html' notes.txt --context 256 --tokens 400000 --out sets/smollm2-l12

A harvest that was interrupted goes on when the same command is given again. Several layers are
harvested in one pass, each into its own folder: --layer 3 --layer 12 writes OUT/layer-03 and
OUT/layer-12. Several --processes write the same bytes as one that has as many threads as each of
them. Model families: Llama, Qwen2, Qwen3, Mistral, GPT-NeoX (Pythia), GPT-2.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parsed = _parser().parse_args(arguments)
    _quiet_libraries()
    try:
        _harvest(parsed)
    except LorsaError as error:
        print(f"lorsa-harvest: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"lorsa-harvest: {error}; what is finished is kept.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lorsa-harvest: interrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    return 0


def _harvest(parsed: argparse.Namespace) -> None:
    import torch

    from lorsa.cpus import limit_torch_threads
    from lorsa.harvest.harvester import harvest
    from lorsa.harvest.options import HarvestOptions
    from lorsa.harvest.progress import Bar, Lines
    from lorsa.harvest.source_model import ModelSource

    threads = parsed.threads or max(1, limit_torch_threads() // parsed.processes)
    torch.set_num_threads(threads)
    options = HarvestOptions(
        source=ModelSource(parsed.model, parsed.gguf_file, parsed.dtype),
        layers=tuple(parsed.layer),
        texts=tuple(parsed.text),
        context=parsed.context,
        tokens=parsed.tokens,
        out=parsed.out,
        seed=parsed.seed,
        batch=parsed.batch,
        sequences_per_shard=parsed.sequences_per_shard,
        model_name=parsed.model_name,
        model_revision=parsed.model_revision,
        hook_convention=HOOKS[parsed.hooks],
        processes=parsed.processes,
    )
    progress = Bar(sys.stderr) if sys.stderr.isatty() else Lines(sys.stderr, time.monotonic)
    with _server(parsed.upload) as client:
        for folder in harvest(options, progress, utc_now):
            print(f"sealed {folder}: {options.sequences} sequences of {options.context} tokens")
            if client is not None:
                set_id = parsed.set_id or parsed.out.resolve().name
                set_id = set_id if folder == parsed.out else f"{set_id}-{folder.name}"
                client.sets.upload(set_id, folder)
                print(f"uploaded {set_id} to {parsed.upload}")


@contextmanager
def _server(address: str | None) -> Iterator[Client | None]:
    """The server that the sets go to, which is there; it is asked before the long harvest."""
    if address is None:
        yield None
        return
    from lorsa.client import Client

    with Client(address) as client:
        client.server_info()
        yield client


def _quiet_libraries() -> None:
    """Before torch and transformers are imported: no bars and hints between our own lines."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DISABLE", "1")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lorsa-harvest",
        description="Writes what a model's attention layers receive and return on a text, as "
        "sealed activation sets.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", required=True, metavar="DIR_OR_NAME", help="model folder, or name on the hub")
    add("--gguf-file", metavar="FILE", help="GGUF file in the model folder")
    add(
        "--layer",
        required=True,
        type=_integer(0, 1 << 20),
        action="append",
        metavar="N",
        help="layer to harvest, from 0; may be given several times",
    )
    add(
        "--text",
        required=True,
        nargs="+",
        metavar="FILE",
        help="text and HTML files, or quoted glob patterns",
    )
    add(
        "--context",
        type=_integer(2, 1 << 20),
        default=256,
        metavar="N",
        help="tokens per sequence, BOS included (default 256)",
    )
    add(
        "--tokens",
        type=_integer(1, 1 << 40),
        default=400_000,
        metavar="N",
        help="tokens in all, rounded down to whole sequences (default 400000)",
    )
    add("--out", required=True, type=Path, metavar="DIR", help="folder of the set")
    add(
        "--seed",
        type=_integer(0, (1 << 63) - 1),
        default=0,
        metavar="N",
        help="seed of the order in which the text's windows are taken (default 0)",
    )
    add(
        "--dtype",
        choices=("bf16", "fp16", "fp32"),
        default="bf16",
        help="what the model runs in and the set stores (default bf16)",
    )
    add(
        "--batch",
        type=_integer(1, 4096),
        default=16,
        metavar="N",
        help="sequences per forward pass (default 16)",
    )
    add(
        "--sequences-per-shard",
        type=_integer(1, 1 << 20),
        default=512,
        metavar="N",
        help="bounds a shard's size (default 512)",
    )
    add(
        "--processes",
        type=_integer(1, 1024),
        default=1,
        metavar="N",
        help="processes that run the model, each on shards of its own (default 1)",
    )
    add(
        "--threads",
        type=_integer(1, 1024),
        metavar="N",
        help="CPU threads of each process (default: all usable cores, shared out)",
    )
    add(
        "--hooks",
        choices=tuple(HOOKS),
        default="transformers",
        help="what mhsa_input is: after the gain and bias of the norm before the layer, or before "
        "them as TransformerLens' ln1.hook_normalized (default transformers)",
    )
    add("--upload", metavar="HOST:PORT", help="lorsad that is sent each set and registers it")
    add(
        "--set-id",
        metavar="ID",
        help="id of the set on that server (default: the name of --out); of several layers "
        "ID-layer-03 and so on",
    )
    add("--model-name", metavar="NAME", help="model name in the manifest (default: from --model)")
    add("--model-revision", metavar="TEXT", help="model revision in the manifest")
    return parser


class _integer:  # noqa: N801 - used as a function
    """An argparse type: an integer in a range."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def __call__(self, text: str) -> int:
        value = int(text) if text.lstrip("-").isdigit() else None
        if value is None or not self._low <= value <= self._high:
            raise argparse.ArgumentTypeError(f"must be an integer from {self._low} to {self._high}")
        return value


if __name__ == "__main__":
    sys.exit(main())
