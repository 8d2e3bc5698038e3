"""A lorsad whose job `done` has succeeded, for tests of what reads it."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lorsa.client import Client
from service import PATIENCE, Service

# 50 steps of a small Lorsa on activationSets/set.
SPEC: dict[str, Any] = {
    "activation_set": "set",
    "n_ov_heads": 64,
    "n_qk_heads": 8,
    "top_k": 8,
    "tokens": 6400,
    "threads": 1,
    "sequences_per_step": 4,
    "evaluation_interval_tokens": 1280,
    "checkpoint_interval_tokens": 3200,
}


def finish_job(service: Service, spec: dict[str, Any] = SPEC) -> None:
    """Submits the job `done` and waits for its success."""
    with Client(service.address) as client:
        assert client.submit(spec, "done").wait(PATIENCE).state == "SUCCEEDED"


@contextmanager
def service_with_finished_job(folder: pathlib.Path, **changes: Any) -> Iterator[Service]:
    """Runs lorsad in `folder` with activationSets/set and the finished job `done`.

    `changes` are to SPEC.
    """
    with Service(folder) as service:
        service.add_set()
        finish_job(service, SPEC | changes)
        yield service
