"""Size and sha256 of a file, as manifests of checkpoints list them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorsa.files import sha256_of
from lorsa.strict_json import Fields


@dataclass(frozen=True)
class FileDigest:
    """What a manifest says of a file."""

    bytes: int
    sha256: str  # in hex

    @staticmethod
    def of(path: Path) -> FileDigest:
        """Reads the file."""
        return FileDigest(path.stat().st_size, sha256_of(path))

    @staticmethod
    def parse(value: Any, where: str) -> FileDigest:
        """Reads the object of a manifest."""
        with Fields(value, where) as fields:
            return FileDigest(fields.integer("bytes", 1), fields.sha256("sha256"))
