"""docs/errors.md lists the reasons that lorsad gives with errors: all of them, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CALL = "WithReason("


def arguments_of_calls(code: str) -> Iterator[str]:
    """What stands between the brackets of each call of WithReason."""
    for match in re.finditer(re.escape(CALL), code):
        depth, end = 1, match.end()
        while depth > 0:
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        yield code[match.end() : end - 1]


def given_reasons() -> set[str]:
    sources = [*ROOT.glob("server/**/*.cc"), *ROOT.glob("base/**/*.cc")]
    constants = {
        name: value
        for header in ROOT.glob("server/**/*.h")
        for name, value in re.findall(
            r'(?:view|char) (k\w+)(?:\[\])? = "([A-Z_]+)";', header.read_text()
        )
    }
    reasons = set()
    for source in sources:
        if not source.name.endswith("_test.cc"):
            for arguments in arguments_of_calls(source.read_text()):
                reasons |= set(re.findall(r'"([A-Z][A-Z_]+)"', arguments))
                reasons |= {
                    constants[n] for n in re.findall(r"\bk\w+", arguments) if n in constants
                }
    return reasons


def test_the_page_lists_every_reason() -> None:
    page = (ROOT / "docs/errors.md").read_text()
    listed = re.findall(r"^\| `([A-Z_]+)` \| [A-Z_]+ \|", page, re.MULTILINE)
    assert listed == sorted(set(listed))
    assert set(listed) == given_reasons()
