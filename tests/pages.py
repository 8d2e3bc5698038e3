"""The code of pages in docs/, run as it stands there."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

from service import BIN, PATIENCE, ROOT

_MODULES = {"lorsa-convert": "lorsa.convert_command", "lorsa-track": "lorsa.track.command"}


def code_of(page: str, language: str) -> list[str]:
    """The blocks of a page in one language."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run_shell(code: str, folder: pathlib.Path, server: str) -> None:
    """Runs commands in `folder`, those of this working tree; they speak to `server`."""
    commands = folder / "commands"
    commands.mkdir(exist_ok=True)
    for name, module in _MODULES.items():
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (commands / name).chmod(0o755)
    environment = os.environ | {
        "PATH": f"{commands}:{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "client" / "python"),
        "LORSA_SERVER": server,
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        check=False,
        capture_output=True,
        cwd=folder,
        env=environment,
        text=True,
        timeout=10 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr + done.stdout
