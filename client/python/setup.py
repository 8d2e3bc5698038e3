"""Builds the package with lorsa/v1, made from the .proto files; all else is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))  # a PEP 517 build runs from elsewhere
import generate_protos


class BuildWithProtos(build_py):
    """build_py, after lorsa/v1 was made."""

    def run(self) -> None:
        if generate_protos.main() != 0:
            raise SystemExit(1)
        super().run()


setup(cmdclass={"build_py": BuildWithProtos})
