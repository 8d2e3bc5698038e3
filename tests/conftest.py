"""Fixtures for tests across processes: the API in Python, a running lorsad, calls to it."""

from __future__ import annotations

import importlib
import pathlib
import secrets
from collections.abc import Iterator
from types import SimpleNamespace

import generate_protos
import grpc
import pytest
from service import Service

SERVICES = ("activation", "checkpoint", "job", "metric", "server_info", "worker")
MESSAGES = ("file_chunk", "job", "training_spec")

assert generate_protos.main() == 0  # before any test module imports lorsa.v1


def pytest_addoption(parser: pytest.Parser) -> None:
    """Of the campaign in tests/faults."""
    parser.addoption("--cycles", type=int, default=4, help="faults under load")
    parser.addoption("--long", action="store_true", help="also the tests that take minutes")
    parser.addoption(
        "--seed", type=int, default=secrets.randbelow(1 << 32), help="what the faults are chosen by"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        items[:] = [item for item in items if item.get_closest_marker("long") is None]


@pytest.fixture(scope="session")
def api() -> SimpleNamespace:
    """The generated modules of lorsa.v1: api.job_service_pb2, api.job_service_pb2_grpc, …"""
    names = [f"{name}_pb2" for name in MESSAGES]
    names += [f"{name}_service_pb2{suffix}" for name in SERVICES for suffix in ("", "_grpc")]
    return SimpleNamespace(**{name: importlib.import_module(f"lorsa.v1.{name}") for name in names})


@pytest.fixture
def lorsad(tmp_path: pathlib.Path) -> Iterator[Service]:
    """A lorsad of this test's own, on a free port; gone afterwards, however the test went."""
    with Service(tmp_path) as service:
        yield service


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
