"""Fixtures for tests across processes: the API in Python, a running lorsad, calls to it."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Iterator
from types import SimpleNamespace

import grpc
import grpc_tools
import lorsa
import pytest
from grpc_tools import protoc
from service import ROOT, Service

SERVICES = ("activation", "checkpoint", "job", "metric", "server_info", "worker")
MESSAGES = ("file_chunk", "job", "training_spec")


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The generated modules of lorsa.v1: api.job_service_pb2, api.job_service_pb2_grpc, …"""
    out = tmp_path_factory.mktemp("generated")
    files = sorted(str(path) for path in (ROOT / "proto/lorsa/v1").glob("*.proto"))
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    arguments = [f"-I{ROOT / 'proto'}", f"-I{well_known}", f"--python_out={out}"]
    assert protoc.main(["protoc", *arguments, f"--grpc_python_out={out}", *files]) == 0
    lorsa.__path__.append(str(out / "lorsa"))  # beside the installed package of that name
    names = [f"{name}_pb2" for name in MESSAGES]
    names += [f"{name}_service_pb2{suffix}" for name in SERVICES for suffix in ("", "_grpc")]
    return SimpleNamespace(**{name: importlib.import_module(f"lorsa.v1.{name}") for name in names})


@pytest.fixture
def lorsad(tmp_path: pathlib.Path) -> Iterator[Service]:
    """A lorsad of this test's own, on a free port; gone afterwards, however the test went."""
    service = Service(tmp_path)
    try:
        yield service.start()
    finally:
        service.close()


@pytest.fixture
def channel(lorsad: Service) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(lorsad.address) as channel:
        yield channel


@pytest.fixture
def stubs(api: SimpleNamespace, channel: grpc.Channel) -> SimpleNamespace:
    """One stub per service: stubs.job, stubs.activation, stubs.server_info, …"""
    classes = {
        name: getattr(
            getattr(api, f"{name}_service_pb2_grpc"),
            "".join(part.capitalize() for part in name.split("_")) + "ServiceStub",
        )
        for name in SERVICES
    }
    return SimpleNamespace(**{name: stub(channel) for name, stub in classes.items()})
