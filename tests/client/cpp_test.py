"""The C++ client library as others get it: installed, found by CMake, and used by the program of
docs/cpp.md against a real lorsad."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator

import pytest
from finished_job import service_with_finished_job
from service import BIN, PATIENCE, ROOT, Service

CONSUMER = ROOT / "tests" / "consumer"
PAGE = (ROOT / "docs" / "cpp.md").read_text()
SPEC = (
    'activation_set: "set" n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: 6400 threads: 1 '
    "sequences_per_step: 4 evaluation_interval_tokens: 1280 checkpoint_interval_tokens: 3200"
)


def run(*command: str | pathlib.Path, env: dict[str, str] | None = None) -> str:
    result = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=5 * PATIENCE, env=env
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The component `client` of this build, installed."""
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BIN.parent, "--prefix", prefix, "--component", "client")
    return prefix


@pytest.fixture(scope="module")
def program(prefix: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The program of tests/consumer, built against what is installed."""
    build = tmp_path_factory.mktemp("consumer")
    env = os.environ | {"CCACHE_BASEDIR": str(prefix.parent), "CCACHE_NOHASHDIR": "true"}
    configure = ["cmake", "-G", "Ninja", "-S", CONSUMER, "-B", build]
    launcher = "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
    run(*configure, f"-DCMAKE_PREFIX_PATH={prefix}", launcher, env=env)
    run("cmake", "--build", build, env=env)
    return build / "train"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service_with_finished_job(tmp_path_factory.mktemp("service")) as service:
        yield service


def test_the_page_shows_the_program_and_every_header(prefix: pathlib.Path) -> None:
    for language, file in (("cmake", "CMakeLists.txt"), ("cpp", "train.cc")):
        shown = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
        assert shown is not None
        assert shown[1] == (CONSUMER / file).read_text()
    headers = {path.name for path in (prefix / "include/lorsa/client").glob("*.h")}
    named = set(re.findall(r"\| `lorsa/client/(\w+\.h)` \|", PAGE))
    assert headers == named | {"call_registry.h"}  # a part of client.h


def test_only_what_is_public_is_installed(prefix: pathlib.Path) -> None:
    assert [path.name for path in (prefix / "include").iterdir()] == ["lorsa"]
    assert {path.name for path in (prefix / "bin").iterdir()} == {"lorsa"}
    installed = {path.name for path in prefix.rglob("*") if path.is_file()}
    assert {"job_service.proto", "job_service.grpc.pb.h", "liblorsa_client.a"} <= installed
    assert not any("worker_service" in name or "server_config" in name for name in installed)


def test_it_links_neither_torch_nor_hdf5(program: pathlib.Path, prefix: pathlib.Path) -> None:
    for binary in (program, prefix / "bin" / "lorsa"):
        libraries = run("ldd", binary)
        assert "libgrpc++" in libraries
        assert not re.search(r"torch|libc10|hdf5|gomp", libraries), libraries


def test_the_program_trains_and_brings_the_checkpoint(
    program: pathlib.Path, service: Service, tmp_path: pathlib.Path
) -> None:
    out = run(program, service.address, SPEC, tmp_path / "out").splitlines()
    name = out[0]
    job = service.job(name.removeprefix("jobs/"))
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert out[1] == "JOB_STATE_QUEUED CREATED"
    assert any(line.startswith("JOB_STATE_RUNNING") for line in out)
    points = [re.fullmatch(r"step (\d+) fvu (\S+)", line) for line in out]
    shown = {int(each[1]): float(each[2]) for each in points if each}
    assert sorted(shown) == [0, 10, 20, 30, 40, 50]
    assert min(shown.values()) == pytest.approx(job["best_fvu"], rel=1e-5)
    listed = next(c for c in service.checkpoints(name.removeprefix("jobs/")) if c["best"])
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (tmp_path / "out").iterdir()
    }
    assert found == {file["name"]: file["sha256"] for file in listed["files"]}


def test_an_error_carries_its_reason_and_what_to_do(
    program: pathlib.Path, service: Service, tmp_path: pathlib.Path
) -> None:
    command = [program, service.address, SPEC.replace("top_k: 8", "top_k: 99"), tmp_path / "out"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 1
    assert result.stderr.startswith("INVALID_FIELDS: ")
    assert "top_k" in result.stderr
