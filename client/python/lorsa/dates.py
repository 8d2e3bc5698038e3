"""Dates as manifests hold them."""

from datetime import datetime, timezone


def utc_now() -> str:
    """RFC 3339, UTC, whole seconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
