"""File systems without locks: flock(2) and fcntl(2) fail, as on some network file systems.

A library that is loaded before all others makes them fail.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from finished_job import finish_job
from lorsa.folder_lock import FolderInUseError, Lease
from service import BIN, PATIENCE, ROOT, Service, wait_for
from synthetic_set import write_set

# Locks of every kind; other commands of fcntl go through.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
int flock(int fd, int operation) { errno = %(error)s; return -1; }
static int call(const char* name, int fd, int command, void* argument) {
  if (command == F_GETLK || command == F_SETLK || command == F_SETLKW ||
      command == F_OFD_GETLK || command == F_OFD_SETLK || command == F_OFD_SETLKW) {
    errno = %(error)s;
    return -1;
  }
  return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, name))(fd, command, argument);
}
#define FORWARD(name) \\
  int name(int fd, int command, ...) { \\
    va_list list; \\
    va_start(list, command); \\
    void* argument = va_arg(list, void*); \\
    va_end(list); \\
    return call(#name, fd, command, argument); \\
  }
FORWARD(fcntl)
FORWARD(fcntl64)
"""
SPEC = (
    "activation_set: 'set' n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: {tokens} threads: 1 "
    "sequences_per_step: 4"
)
READ = """
import sys
from lorsa.activation_set import ActivationSet
from lorsa.harvest.state import locked_folder
from pathlib import Path
assert ActivationSet(Path(sys.argv[1])).read(0, 2).tokens.shape[0] == 2
with locked_folder(Path(sys.argv[2])):
    pass
"""


@pytest.fixture(params=["ENOSYS", "ENOLCK", "EOPNOTSUPP"])
def no_locks(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From here on no process that the test starts can lock a file."""
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM % {"error": request.param})
    command = ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True, timeout=PATIENCE)
    monkeypatch.setenv("LD_PRELOAD", str(library))


def sealed_set(folder: pathlib.Path) -> pathlib.Path:
    write_set(folder / "set")
    subprocess.run([BIN / "lorsa-set", "seal", folder / "set"], check=True, timeout=PATIENCE)
    return folder / "set"


@pytest.mark.usefixtures("no_locks")
def test_lorsad_runs_jobs_and_keeps_a_second_one_away(tmp_path: pathlib.Path) -> None:
    with Service(tmp_path) as service:
        service.add_set()
        finish_job(service)
        second = [BIN / "lorsad", "--data-dir", service.data, "--listen", "127.0.0.1:0"]
        refused = subprocess.run(
            second, check=False, capture_output=True, text=True, timeout=PATIENCE
        )
        assert refused.returncode == 1
        assert f"{service.data} is in use" in refused.stderr
        assert service.process is not None
        assert f"by process {service.process.pid} on" in refused.stderr
        assert service.terminate() == 0
        service.start()  # at once: the lock was let go
        assert service.state("done") == "SUCCEEDED"


def standalone(folder: pathlib.Path, tokens: int) -> list[str | pathlib.Path]:
    spec = SPEC.format(tokens=tokens)
    paths = ["--set", folder / "set", "--out", folder / "out"]
    return [BIN / "lorsa-worker", "--standalone", spec, *paths]


@pytest.mark.usefixtures("no_locks")
def test_a_standalone_worker_trains_and_python_reads(tmp_path: pathlib.Path) -> None:
    sealed_set(tmp_path)
    subprocess.run(standalone(tmp_path, 6400), check=True, timeout=PATIENCE)
    read = subprocess.run(
        [sys.executable, "-c", READ, tmp_path / "set", tmp_path / "harvest"],
        check=False,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "client/python")},
        text=True,
        timeout=PATIENCE,
    )
    assert read.returncode == 0, read.stderr


@pytest.mark.usefixtures("no_locks")
def test_python_and_the_programs_keep_each_other_away(tmp_path: pathlib.Path) -> None:
    sealed_set(tmp_path)
    (tmp_path / "out").mkdir()
    lease = Lease.acquire(tmp_path / "out" / "lock")
    command = standalone(tmp_path, 10_000_000)
    refused = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 1
    assert f"by process {os.getpid()} on" in refused.stderr
    lease.close()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as worker:
        try:
            wait_for("the worker to have the lock", (tmp_path / "out/lock.owner-2").exists)
            with pytest.raises(FolderInUseError, match=f"by process {worker.pid} on"):
                Lease.acquire(tmp_path / "out" / "lock")
        finally:
            worker.kill()
