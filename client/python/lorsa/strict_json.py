"""JSON objects read strictly: each key is expected, typed and bounded, or the file is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from lorsa.errors import LorsaError

MAX_INTEGER = 2**53
MAX_TEXT_BYTES = 1024
Parsed = TypeVar("Parsed")


def parse_object(text: bytes, where: str) -> dict[str, Any]:
    """The object that `text` holds; `where` names the file in errors."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LorsaError(f"{where} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise LorsaError(f"{where} does not hold a JSON object.")
    return value


class Fields:
    """Takes an object's keys one by one; leaving the `with` block refuses those not taken."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise LorsaError(f"{where} is not an object.")
        self._rest = dict(value)
        self.where = where  # how errors name the object

    def __enter__(self) -> Fields:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and self._rest:
            keys = ", ".join(sorted(self._rest))
            raise LorsaError(f"{self.where} has keys that this version does not know: {keys}.")

    def path(self, key: str) -> str:
        """How errors name a key."""
        return f"{self.where}: {key}"

    def any(self, key: str) -> Any:
        """The value of a key that must be there."""
        if key not in self._rest:
            raise LorsaError(f"{self.path(key)} is missing.")
        return self._rest.pop(key)

    def integer(self, key: str, low: int, high: int = MAX_INTEGER) -> int:
        """An integer from `low` to `high`."""
        value = self.any(key)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise LorsaError(f"{self.path(key)} must be an integer from {low} to {high}.")
        return value

    def number(self, key: str, above: float = 0.0) -> float:
        """A finite number greater than `above`."""
        value = self.any(key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= above:
            raise LorsaError(f"{self.path(key)} must be a number above {above:g}.")
        return float(value)

    def number_or(self, key: str, default: float) -> float:
        """The same, or `default` for null."""
        if self._rest.get(key, 0) is None:
            self.any(key)
            return default
        return self.number(key)

    def non_negative(self, key: str) -> float:
        """A finite number, 0 or greater."""
        return self.number(key, above=-math.ulp(0.0))

    def text(self, key: str) -> str:
        """A string of at most 1,024 bytes."""
        value = self.any(key)
        if not isinstance(value, str) or len(value.encode(errors="replace")) > MAX_TEXT_BYTES:
            raise LorsaError(
                f"{self.path(key)} must be a string of at most {MAX_TEXT_BYTES} bytes."
            )
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """One of a few strings."""
        if (value := self.text(key)) not in choices:
            raise LorsaError(f"{self.path(key)} is {value!r}; it must be {' or '.join(choices)}.")
        return value

    def sha256(self, key: str) -> str:
        """A sha256 in lower-case hex."""
        value = self.text(key)
        if not re.fullmatch(r"[0-9a-f]{64}", value):
            raise LorsaError(f"{self.path(key)} must be 64 hexadecimal digits.")
        return value

    def boolean(self, key: str) -> bool:
        """true or false."""
        value = self.any(key)
        if not isinstance(value, bool):
            raise LorsaError(f"{self.path(key)} must be true or false.")
        return value

    def object(self, key: str, parse: Callable[[Any, str], Parsed]) -> Parsed:
        """What `parse(value, where)` makes of the value."""
        return parse(self.any(key), self.path(key))

    def optional(self, key: str, parse: Callable[[Any, str], Parsed]) -> Parsed | None:
        """The same, or None for null."""
        value = self.any(key)
        return None if value is None else parse(value, self.path(key))

    def literal(self, key: str, expected: str | int) -> None:
        """A value that identifies the format or its version."""
        if (value := self.any(key)) != expected:
            raise LorsaError(f"{self.path(key)} is {value!r}; this version reads {expected!r}.")
