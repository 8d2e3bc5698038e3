"""grpc.health.v1 by hand: its Python package would be needed for this alone."""

from __future__ import annotations

import grpc
from service import PATIENCE, Service, wait_for

HEALTH_CHECK = "/grpc.health.v1.Health/Check"
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"  # HealthCheckResponse.status


def health(channel: grpc.Channel, service: str = "") -> bytes:
    """What the server says of one of its services; of itself without a name."""
    request = b"" if not service else bytes([0x0A, len(service)]) + service.encode()
    return bytes(channel.unary_unary(HEALTH_CHECK)(request, wait_for_ready=True, timeout=PATIENCE))


def wait_until_serving(service: Service) -> None:
    with grpc.insecure_channel(service.address) as channel:
        wait_for("lorsad to be SERVING", lambda: health(channel) == SERVING)
