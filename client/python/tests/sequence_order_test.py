"""The order of sequences against the test vectors and the code of the format document."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from lorsa.sequence_order import SequenceOrder

DOCUMENT = (Path(__file__).parents[3] / "docs" / "activation_format.md").read_text()


def _vectors() -> list[tuple[int, int, int, list[int]]]:
    """(n, seed, first cursor, indices) of each row of the document's table."""
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+)–\d+ \| ([\d ]+) \|$", DOCUMENT, re.MULTILINE)
    return [(int(n), int(s), int(c), [int(i) for i in x.split()]) for n, s, c, x in rows]


def test_the_document_has_vectors() -> None:
    assert len(_vectors()) >= 7


@pytest.mark.parametrize(("sequences", "seed", "cursor", "indices"), _vectors())
def test_agrees_with_the_documents_vectors(
    sequences: int, seed: int, cursor: int, indices: list[int]
) -> None:
    order = SequenceOrder(sequences, seed)
    assert list(islice(order.from_cursor(cursor), len(indices))) == indices


def test_agrees_with_the_documents_code() -> None:
    match = re.search(r"```python order\n(.*?)```", DOCUMENT, re.DOTALL)
    assert match is not None
    names: dict[str, Callable[[int, int, int], int]] = {}
    exec(match[1], names)
    for sequences in (1, 2, 3, 4, 5, 63, 64, 65, 1434):
        order = SequenceOrder(sequences, 7)
        for cursor in range(2 * sequences):
            assert order.at(cursor) == names["index_at"](sequences, 7, cursor)


@pytest.mark.parametrize(("sequences", "seed"), [(0, 0), (1, -1), (1, 1 << 64)])
def test_arguments_out_of_range(sequences: int, seed: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SequenceOrder(sequences, seed)
