"""What deploy/demo.sh installs and builds: the programs, and nothing that only tests need."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def installed_by_setup(folder: Path, *arguments: str) -> str:
    """Command lines of apt-get and pip on a machine that has no package yet."""
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    (folder / "client" / "python").mkdir(parents=True)
    shutil.copy(ROOT / "client" / "python" / "pyproject.toml", folder / "client" / "python")
    calls = folder / "calls"
    record = f'echo "$@" >> {calls}'
    script(folder / "bin" / "apt-get", record)
    script(folder / "bin" / "sudo", '"$@"')
    script(folder / "bin" / "dpkg-query", "true")
    script(folder / ".venv" / "bin" / "pip", record)
    script(folder / ".venv" / "bin" / "python", "true")
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    command = [folder / "deploy" / "setup.sh", *arguments]
    subprocess.run(command, check=True, env=os.environ | {"PATH": path})
    return calls.read_text()


def test_programs_need_no_package_of_the_tests(tmp_path):
    programs = installed_by_setup(tmp_path / "programs", "programs")
    everything = installed_by_setup(tmp_path / "all")
    assert "libgrpc++-dev" in programs
    for name in ("libgtest-dev", "clang-14", "debian-handbook", "requirements-tests.txt"):
        assert name not in programs
        assert name in everything


def test_programs_build_without_google_test_and_compile_no_test(tmp_path):
    configure = ["cmake", "--preset", "release", "-B", tmp_path, "--log-level=ERROR"]
    without = ["-DBUILD_TESTING=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON"]
    subprocess.run([*configure, *without], cwd=ROOT, check=True)
    steps = subprocess.run(
        ["ninja", "-C", tmp_path, "-n", "programs"], check=True, capture_output=True, text=True
    ).stdout
    assert "bin/lorsad" in steps
    for part in ("_test.cc", "_tests", "testing/", "bench"):
        assert part not in steps
