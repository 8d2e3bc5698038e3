"""Reading texts and packing them into sequences."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from lorsa.errors import LorsaError
from lorsa.harvest import text
from lorsa.harvest.text import Packing, read_texts, refuse_left_padding, strip_html, tokenize


def test_html_is_stripped() -> None:
    page = "<head><title>no</title></head><body>a &amp; <b>b</b>\t c<script>x<y</script></body>"
    assert strip_html(page).split() == ["a", "&", "b", "c"]


def test_files_of_a_pattern_are_sorted_and_patterns_follow_one_another(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "b.txt").write_text("B")
    (tmp_path / "a.txt").write_text("A")
    (tmp_path / "deep" / "er" / "c.html").write_text("<p>C</p>")
    (tmp_path / "odd[1].txt").write_bytes(b"D\xff")
    patterns = [f"{tmp_path}/[ab].txt", f"{tmp_path}/**/*.html", f"{tmp_path}/odd[1].txt"]
    assert read_texts(patterns) == "A\nB C D"


def test_texts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("12345")
    monkeypatch.setattr(text, "MAX_TEXT_BYTES", 4)
    with pytest.raises(LorsaError, match="more than 4 bytes"):
        read_texts([f"{tmp_path}/a.txt"])


def test_windows_begin_with_bos() -> None:
    sequences = Packing(4, 9, frozenset({9}), 0).sequences(torch.arange(8), 2)
    assert sorted(sequences.tolist()) == [[9, 0, 1, 2], [9, 3, 4, 5]]


def test_windows_fill_the_sequence_without_bos() -> None:
    sequences = Packing(4, None, frozenset(), 0).sequences(torch.arange(8), 2)
    assert sorted(sequences.tolist()) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_the_mask_is_zero_at_special_tokens() -> None:
    packing = Packing(4, 9, frozenset({9, 2}), 0)
    mask = packing.mask(torch.tensor([[9, 1, 2, 3]]))
    assert mask.dtype == torch.uint8
    assert mask.tolist() == [[0, 1, 0, 1]]


def test_padding_is_refused() -> None:
    class LeftPadded:
        padding_side = "left"

        def __call__(self, text: str, **options: bool) -> SimpleNamespace:
            return SimpleNamespace(input_ids=[0, 0, 5], attention_mask=[0, 0, 1])

    with pytest.raises(LorsaError, match="pads its output on the left"):
        tokenize(LeftPadded(), "text")


@pytest.mark.parametrize(
    ("tokens", "mask", "padded"),
    [
        ([2, 2, 2, 2, 5], [0, 0, 0, 0, 1], True),
        ([1, 2, 2, 2, 5], [0, 0, 0, 0, 1], False),  # BOS, then special tokens
        ([2, 2, 2, 5, 5], [0, 0, 0, 1, 1], False),
        ([2, 2, 2, 2, 2], [0, 0, 0, 0, 0], False),  # masked throughout
        ([5, 5, 5, 5, 5], [1, 1, 1, 1, 1], False),
    ],
)
def test_left_padding_in_the_text_is_refused(
    tokens: list[int], mask: list[int], padded: bool
) -> None:
    sequences = torch.tensor([[1, 5, 5, 5, 5], tokens])
    masks = torch.tensor([[0, 1, 1, 1, 1], mask], dtype=torch.uint8)
    if not padded:
        refuse_left_padding(sequences, masks)
        return
    with pytest.raises(LorsaError, match="Sequence 1 begins with 4 or more tokens 2"):
        refuse_left_padding(sequences, masks)


def test_too_short_a_text_says_what_it_gives() -> None:
    with pytest.raises(LorsaError, match=r"gives 2 sequences .* 3 were asked for: .*--tokens 8"):
        Packing(4, 9, frozenset({9}), 0).sequences(torch.arange(8), 3)
