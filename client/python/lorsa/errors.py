"""The one exception that callers of this package handle."""

from __future__ import annotations


class LorsaError(Exception):
    """What went wrong and what to do about it, in one sentence for a user."""
