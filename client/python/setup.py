"""Builds the package with lorsa/v1, made from the .proto files; all else is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).parent))  # a PEP 517 build runs from elsewhere
import generate_protos

if generate_protos.main() != 0:  # before setuptools looks for packages
    raise SystemExit(1)
setup()
