"""Loads the model whose attention is harvested."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorsa.errors import LorsaError
from lorsa.harvest.families import family_of
from lorsa.torch_bits import DTYPES


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from: a folder, or a name that transformers resolves."""

    model: str
    gguf_file: str | None  # a file of the folder, dequantised when loaded
    element_type: str  # the dtype the model runs in: bf16, fp16 or fp32

    def load(self) -> tuple[Any, Any]:
        """(model in eval mode, tokenizer). A folder is never looked up on the network."""
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

        options: dict[str, Any] = {"gguf_file": self.gguf_file} if self.gguf_file else {}
        if Path(self.model).is_dir():
            options["local_files_only"] = True
        _check_gguf(self)
        try:
            if not self.gguf_file:
                # Refused before the weights are read. A GGUF file is too slow to read once more.
                family_of(AutoConfig.from_pretrained(self.model, **options).model_type)
            tokenizer = AutoTokenizer.from_pretrained(self.model, **options)
            model = AutoModelForCausalLM.from_pretrained(
                self.model, dtype=DTYPES[self.element_type], **options
            )
        except (OSError, ValueError, ImportError) as error:
            reason = " ".join(str(error).split())
            raise LorsaError(f"The model {self.model} cannot be loaded: {reason}") from error
        return model.eval(), tokenizer

    def default_name(self) -> str:
        """Model name for the manifest: of the GGUF file, else the folder's or the hub's."""
        if self.gguf_file:
            return _split_gguf(self.gguf_file)[0]
        return Path(self.model).resolve().name if Path(self.model).is_dir() else self.model

    def default_revision(self, config: Any) -> str:
        """Revision for the manifest: the GGUF's quantisation, the hub's commit, or `local`."""
        if self.gguf_file:
            return _split_gguf(self.gguf_file)[1]
        return str(getattr(config, "_commit_hash", None) or "local")


def _check_gguf(source: ModelSource) -> None:
    if source.gguf_file is None or not Path(source.model).is_dir():
        return
    if not (Path(source.model) / source.gguf_file).is_file():
        raise LorsaError(f"--gguf-file {source.gguf_file} is not in {source.model}.")


def _split_gguf(file: str) -> tuple[str, str]:
    """`SmolLM2-135M-Instruct.Q4_1.gguf` → (`SmolLM2-135M-Instruct`, `Q4_1`)."""
    stem = file.removesuffix(".gguf")
    match = re.fullmatch(r"(.+)[.-]((?:I?Q\d\w*|B?F(?:16|32)))", stem, re.IGNORECASE)
    return (match[1], match[2]) if match else (stem, "gguf")
