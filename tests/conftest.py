"""Fixtures for tests across processes: the API in Python, a running lorsad, calls to it."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Iterator
from types import SimpleNamespace

import generate_protos
import grpc
import pytest
from service import Service

SERVICES = ("activation", "checkpoint", "job", "metric", "server_info", "worker")
MESSAGES = ("file_chunk", "job", "training_spec")

assert generate_protos.main() == 0  # before any test module imports lorsa.v1


@pytest.fixture(scope="session")
def api() -> SimpleNamespace:
    """The generated modules of lorsa.v1: api.job_service_pb2, api.job_service_pb2_grpc, …"""
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
