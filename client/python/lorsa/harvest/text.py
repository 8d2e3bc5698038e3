"""Text files → token ids → sequences of a fixed length."""

from __future__ import annotations

import glob
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lorsa.errors import LorsaError

MAX_TEXT_BYTES = 1 << 30  # of all files together
PADDING_RUN = 4  # masked positions with one token at the start: the format takes them for padding


def strip_html(page: str) -> str:
    """The visible text of an HTML page."""
    page = re.sub(r"(?s)<(script|style|head)[^>]*>.*?</\1>", " ", page)
    return re.sub(r"[ \t]+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def read_texts(patterns: Sequence[str]) -> str:
    """The text of files and glob patterns (`**` crosses folders), in the order given.

    The files of one pattern are taken in alphabetical order with a newline between them; HTML
    files are stripped; bytes that are not UTF-8 are dropped.
    """
    budget = MAX_TEXT_BYTES
    groups = []
    for pattern in patterns:
        paths = _files(pattern)
        budget -= sum(path.stat().st_size for path in paths)
        if budget < 0:
            raise LorsaError(f"The texts have more than {MAX_TEXT_BYTES} bytes; pass fewer files.")
        groups.append("\n".join(_read_file(path) for path in paths))
    return "".join(groups)


def tokenize(tokenizer: Any, text: str) -> torch.Tensor:
    """Token ids of the whole text, int64 [tokens], with no special token added."""
    tokenizer.model_max_length = 1 << 60  # a long text is meant; the default only warns about it
    encoding = tokenizer(text, add_special_tokens=False, return_attention_mask=True)
    if not all(encoding.attention_mask):
        raise LorsaError(
            f"The tokenizer pads its output on the {tokenizer.padding_side}; sequences are packed "
            "without padding: turn padding off in the model's tokenizer.json."
        )
    return torch.tensor(encoding.input_ids, dtype=torch.int64)


@dataclass(frozen=True)
class Packing:
    """How token ids become sequences: [BOS] + a window of the text, in a seeded random order."""

    context: int  # positions per sequence, BOS included
    bos: int | None  # None: the tokenizer has no BOS, and the window fills the sequence
    special: frozenset[int]  # ids that are never a target
    seed: int

    def sequences(self, ids: torch.Tensor, count: int) -> torch.Tensor:
        """int64 [count, context]; LorsaError if the text is too short."""
        window = self.context - (self.bos is not None)
        available = len(ids) // window
        if count > available:
            raise LorsaError(
                f"The text gives {available} sequences of {self.context} tokens, {count} were "
                f"asked for: pass more --text, or --tokens {available * self.context}."
            )
        order = torch.randperm(available, generator=torch.Generator().manual_seed(self.seed))
        windows = ids[: available * window].view(available, window)[order[:count]]
        if self.bos is None:
            return windows
        return torch.cat([torch.full((count, 1), self.bos), windows], dim=1)

    def mask(self, sequences: torch.Tensor) -> torch.Tensor:
        """uint8, the shape of `sequences`: 1 = a target that counts, 0 = BOS or special."""
        special = torch.tensor(sorted(self.special), dtype=torch.int64)
        return (~torch.isin(sequences, special)).to(torch.uint8)


def refuse_left_padding(sequences: torch.Tensor, mask: torch.Tensor) -> None:
    """LorsaError for a sequence that readers of the set would refuse as padded on the left."""
    start = sequences[:, :PADDING_RUN]
    same = (start == start[:, :1]).all(1) & (start.shape[1] == PADDING_RUN)
    padded = same & (mask[:, :PADDING_RUN] == 0).all(1) & mask.bool().any(1)
    if padded.any():
        raise LorsaError(
            f"Sequence {int(padded.nonzero()[0])} begins with {PADDING_RUN} or more tokens "
            f"{int(start[padded][0, 0])}, which is left padding: take it out of the text."
        )


def packing_for(tokenizer: Any, context: int, seed: int) -> Packing:
    """The packing that a model's tokenizer asks for."""
    bos = tokenizer.bos_token_id
    if context < 2:
        raise LorsaError(f"--context {context} is too short: attention needs at least 2 tokens.")
    special = frozenset(int(token) for token in tokenizer.all_special_ids)
    return Packing(context, bos, special | ({bos} if bos is not None else set()), seed)


def _files(pattern: str) -> list[Path]:
    if Path(pattern).is_file():
        return [Path(pattern)]
    paths = [Path(path) for path in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207
    paths = [path for path in paths if path.is_file()]
    if not paths:
        raise LorsaError(f"--text {pattern} matches no file.")
    return paths


def _read_file(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="ignore")
    return strip_html(text) if path.suffix.lower() in (".html", ".htm") else text
