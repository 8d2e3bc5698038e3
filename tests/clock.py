"""A wall clock that tests set for the processes that they start (shifted_clock.c)."""

from __future__ import annotations

import os
import pathlib
import subprocess

from service import ROOT


class ShiftedClock:
    """Ahead of the machine's clock in processes with `environment`. Its files lie in `folder`."""

    def __init__(self, folder: pathlib.Path) -> None:
        library, self._file = folder / "shifted_clock.so", folder / "clock"
        source = ROOT / "tests/shifted_clock.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self._file.write_bytes(b"")
        self.environment = {"LORSA_CLOCK": str(self._file), "LD_PRELOAD": str(library)}

    def set_ahead(self, seconds: int) -> None:
        """Also of processes that run."""
        os.truncate(self._file, seconds)
