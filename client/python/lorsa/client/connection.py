"""What the clients of threads and of asyncio have in common: how they reach a server."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from lorsa.errors import LorsaError
from lorsa.v1 import (
    activation_service_pb2_grpc,
    checkpoint_service_pb2_grpc,
    job_service_pb2_grpc,
    metric_service_pb2_grpc,
    server_info_service_pb2_grpc,
)

Tls = Any  # bool | str | PathLike[str] | grpc.ChannelCredentials, whose package has no types
_MAX_RECEIVED_BYTES = 16 << 20
_MAX_CERTIFICATE_BYTES = 1 << 20
_REPEATED = {  # reads, and what has a request_id
    "lorsa.v1.ActivationService": ("GetActivationSet", "ListActivationSets", "GetUpload"),
    "lorsa.v1.CheckpointService": ("GetCheckpoint", "ListCheckpoints"),
    "lorsa.v1.JobService": (
        "GetJob",
        "ListJobs",
        "CreateJob",
        "ForkJob",
        "CreateSweep",
        "GetSweep",
        "ListSweeps",
    ),
    "lorsa.v1.MetricService": ("QueryMetrics",),
    "lorsa.v1.ServerInfoService": ("GetServerInfo",),
}
_RETRY_POLICY = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}


@dataclass(frozen=True)
class Address:
    """A server and how to speak to it."""

    server: str  # HOST:PORT
    token: str | None
    credentials: grpc.ChannelCredentials | None  # None: without TLS

    @staticmethod
    def of(server: str, token: str | None, tls: Tls) -> Address:
        """`tls`: False, True for the system's certificates, a file of certificates, or
        credentials. LorsaError unless `server` has the form HOST:PORT.
        """
        if not re.fullmatch(r"\S+:\d{1,5}", server):
            raise LorsaError(f"{server!r} is not the address of a server: give HOST:PORT.")
        return Address(server, token, _credentials(tls))

    def call_metadata(self) -> tuple[tuple[str, str], ...]:
        """What is sent with one call: the token, and a new id that the server's log names it by."""
        request_id = ("x-request-id", secrets.token_hex(8))
        if self.token is None:
            return (request_id,)
        return (request_id, ("authorization", f"Bearer {self.token}"))


class Stubs:
    """The services, on a channel of grpc or of grpc.aio."""

    def __init__(self, channel: Any) -> None:
        self.activation: Any = activation_service_pb2_grpc.ActivationServiceStub(channel)
        self.checkpoint: Any = checkpoint_service_pb2_grpc.CheckpointServiceStub(channel)
        self.job: Any = job_service_pb2_grpc.JobServiceStub(channel)
        self.metric: Any = metric_service_pb2_grpc.MetricServiceStub(channel)
        self.server_info: Any = server_info_service_pb2_grpc.ServerInfoServiceStub(channel)


def open_channel(address: Address, grpc_module: Any) -> Any:
    """A channel of `grpc` or `grpc.aio`; connects when first used."""
    if address.credentials is None:
        return grpc_module.insecure_channel(address.server, _options())
    return grpc_module.secure_channel(address.server, address.credentials, _options())


def _options() -> list[tuple[str, Any]]:
    names = [
        {"service": service, "method": method}
        for service, methods in _REPEATED.items()
        for method in methods
    ]
    config = {"methodConfig": [{"name": names, "retryPolicy": _RETRY_POLICY}]}
    return [
        ("grpc.max_receive_message_length", _MAX_RECEIVED_BYTES),
        ("grpc.service_config", json.dumps(config)),
        # A peer that vanished without a word is noticed within a minute.
        ("grpc.keepalive_time_ms", 40_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        # gRPC's own pause between connections may reach two minutes; a server is up sooner.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # How long making a connection may take, despite its name: a busy machine needs more than
        # the pause, and a call that is not repeated would fail. A refusal is one at once.
        ("grpc.min_reconnect_backoff_ms", 5_000),
        # Two clients of one process share no state, and a proxy meant for the web is not asked.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    ]


def _credentials(tls: Tls) -> grpc.ChannelCredentials | None:
    if tls is False:
        return None
    if tls is True:
        return grpc.ssl_channel_credentials()
    if isinstance(tls, grpc.ChannelCredentials):
        return tls
    path = Path(tls)
    if not path.is_file() or path.stat().st_size > _MAX_CERTIFICATE_BYTES:
        raise LorsaError(f"{path} is not a file of certificates.")
    return grpc.ssl_channel_credentials(path.read_bytes())
