"""The wheel: built from the sources alone, installed into an empty environment, talks to lorsad."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import venv
import zipfile

from service import ROOT, Service

USE = """
import importlib.util, sys
import lorsa
assert importlib.util.find_spec("torch") is None
with lorsa.Client(sys.argv[1]) as client:
    print(client.server_info().version)
try:
    lorsa.Lorsa
except ImportError as error:
    print(error)
"""


def build_wheel(folder: pathlib.Path) -> pathlib.Path:
    """From copies of what the repository holds: lorsa/v1 is made on the way."""
    generated = shutil.ignore_patterns("v1", "build", "*.egg-info", "__pycache__", ".*_cache")
    sources = folder / "client" / "python"
    shutil.copytree(ROOT / "client" / "python", sources, ignore=generated)
    shutil.copytree(ROOT / "proto" / "lorsa", folder / "proto" / "lorsa")
    options = ["-q", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "wheels"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, sources], check=True)
    (wheel,) = (folder / "wheels").glob("lorsa-*.whl")
    return wheel


def test_the_wheel_works_in_an_empty_environment(lorsad: Service, tmp_path: pathlib.Path) -> None:
    wheel = build_wheel(tmp_path / "sources")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"lorsa/py.typed", "lorsa/v1/job_pb2.py", "lorsa/v1/job_pb2.pyi"} <= names
    assert not any(name.startswith(("tests/", "generate_protos")) for name in names)

    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    options = ["-q", "--no-compile", "-c", ROOT / "deploy" / "requirements.txt"]
    subprocess.run([*pip, "install", *options, wheel], check=True)
    result = subprocess.run(
        [python, "-I", "-c", USE, lorsad.address], check=True, capture_output=True, text=True
    )
    version, refusal = result.stdout.splitlines()
    assert version == lorsad.cli("--version").stdout.split()[-1]
    assert "pip install 'lorsa[torch]'" in refusal
    for command in ("lorsa-harvest", "lorsa-evaluate", "lorsa-convert", "lorsa-track"):
        shown = subprocess.run(
            [environment / "bin" / command, "--help"], check=True, capture_output=True, text=True
        )
        assert command in shown.stdout
