"""A real lorsad and the real `lorsa` command, for tests across processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from synthetic_set import write_set

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("LORSA_BIN_DIR", ROOT / "build/release/bin"))
PATIENCE = 120.0  # seconds: how long a test waits for what must happen

Kind = TypeVar("Kind", bound="Service")


def wait_for(what: str, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The first true value of `condition`."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"after {patience:.0f} s still waiting for {what}")


def run_lorsad(*arguments: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    """lorsad where it ends by itself: for what it prints, or refuses."""
    command = [BIN / "lorsad", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)


class Service:
    """lorsad on a data folder, with the workers that it launched. Restarted, it keeps its port.

    `with` starts it, and leaves no process of it behind, however the test went. One service can be
    entered again and again.
    """

    def __init__(
        self, folder: pathlib.Path, *flags: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.program = BIN / "lorsad"
        self.listen = "127.0.0.1:0"
        self.folder = folder
        self.data = folder / "data"
        self.sets = folder / "sets"
        self.log = folder / "lorsad.log"
        self.flags = flags
        self.environment = environment or {}  # beside this process's
        self.process: subprocess.Popen[bytes] | None = None
        for path in (self.data, self.sets):
            path.mkdir(exist_ok=True)

    def __enter__(self: Kind) -> Kind:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        self.launch()
        wait_for("lorsad to listen", self._listening)
        self.listen = self.address

    def launch(self) -> None:
        """Starts the process and does not wait for it to listen."""
        if (self.data / "endpoint").exists():  # or the disk may be read-only
            (self.data / "endpoint").unlink()
        command = [self.program, "--data-dir", self.data, "--listen", self.listen]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--activation-root", self.sets, *self.flags],
                stderr=log,
                env={**os.environ, **self.environment},
            )

    def _listening(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"lorsad ended: {self.log.read_text()}"
        return (self.data / "endpoint").exists()

    @property
    def address(self) -> str:
        return (self.data / "endpoint").read_text().strip()

    def kill(self) -> None:
        """SIGKILL: what a crash looks like."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """SIGKILL to whatever of it still runs, workers included."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.kill_workers()

    def kill_workers(self) -> None:
        for pid in self.worker_pids():
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)

    def worker_pids(self) -> list[int]:
        """Living workers whose bootstrap file or scratch folder lies in this service's folder."""
        pids = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes()
                alive = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
            except OSError:
                continue
            if alive and b"--bootstrap" in command and bytes(self.folder) in command:
                pids.append(int(entry.name))
        return pids

    def job_files(self) -> dict[pathlib.Path, str]:
        """The files of its jobs, with the sha256 of each."""
        return {
            path: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (self.data / "jobs").rglob("*")
            if path.is_file()
        }

    def cli(
        self, *arguments: str | pathlib.Path, ok: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs `lorsa`; with `ok`, it must exit with 0."""
        result = subprocess.run(
            [BIN / "lorsa", "--server", self.address, *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert not ok or result.returncode == 0, result.stderr + result.stdout
        return result

    def json(self, *arguments: str | pathlib.Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.cli("--json", *arguments).stdout.splitlines()]

    def add_set(self, set_id: str = "set", **options: int) -> pathlib.Path:
        """Registers what `write_set` makes of `options`; its folder."""
        folder = self.sets / set_id
        write_set(folder, **options)
        self.cli("set", "register", set_id, folder)
        return folder

    def job(self, job_id: str) -> dict[str, Any]:
        return self.json("job", "show", job_id)[0]

    def state(self, job_id: str) -> str:
        return str(self.job(job_id)["state"]).removeprefix("JOB_STATE_")

    def wait_for_state(self, job_id: str, *states: str) -> dict[str, Any]:
        wait_for(f"{job_id} to be {' or '.join(states)}", lambda: self.state(job_id) in states)
        return self.job(job_id)

    def checkpoints(self, job_id: str) -> list[dict[str, Any]]:
        return self.json("checkpoint", "list", job_id)
