"""Python side of Lorsa Service.

    lorsa.Client          a connection to lorsad; lorsa.aio.Client for asyncio
    lorsa.show_progress   a bar in a terminal, a curve in a notebook
    lorsa.ActivationSet   reads a sealed activation set (docs/activation_format.md)
    lorsa.SequenceDataset its training or held-out batches for torch, in the server's order
    lorsa.SetWriter       writes a set of lorsa.Sequences, as its lorsa.Description says
    lorsa.Lorsa           a trained Lorsa as a torch module
    lorsa.evaluate        its metrics on the held-out sequences of a set
    lorsa.replace_attention   a Lorsa in the place of a model's attention layer
    lorsa.downstream_loss     what that costs the model

`import lorsa` loads none of torch, h5py and grpc: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lorsa import aio as aio
    from lorsa.activation_set import ActivationSet as ActivationSet
    from lorsa.client import Client as Client
    from lorsa.client import show_progress as show_progress
    from lorsa.evaluation import evaluate as evaluate
    from lorsa.intervention import downstream_loss as downstream_loss
    from lorsa.intervention import replace_attention as replace_attention
    from lorsa.manifest import Description as Description
    from lorsa.model import Lorsa as Lorsa
    from lorsa.sequence_dataset import SequenceDataset as SequenceDataset
    from lorsa.set_writer import SetWriter as SetWriter
    from lorsa.shards import Sequences as Sequences

__version__ = "0.1.0"

_MODULE_OF = {
    "ActivationSet": "lorsa.activation_set",
    "Client": "lorsa.client",
    "Description": "lorsa.manifest",
    "Lorsa": "lorsa.model",
    "SequenceDataset": "lorsa.sequence_dataset",
    "Sequences": "lorsa.shards",
    "SetWriter": "lorsa.set_writer",
    "downstream_loss": "lorsa.intervention",
    "evaluate": "lorsa.evaluation",
    "replace_attention": "lorsa.intervention",
    "show_progress": "lorsa.client",
}

__all__ = [
    "ActivationSet",
    "Client",
    "Description",
    "Lorsa",
    "SequenceDataset",
    "Sequences",
    "SetWriter",
    "__version__",
    "aio",
    "downstream_loss",
    "evaluate",
    "replace_attention",
    "show_progress",
]


def __getattr__(name: str) -> Any:
    if name == "aio":
        return importlib.import_module("lorsa.aio")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'lorsa' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        raise ImportError(
            f"lorsa.{name} needs {error.name}: pip install 'lorsa[torch]' or 'lorsa[harvest]'."
        ) from error
