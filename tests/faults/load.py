"""Many clients at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from typing import Any

from actions import Actions
from lorsa.client import Client, Patience
from lorsa.client.errors import ResourceExhaustedError, UnavailableError

OUTAGE = 60.0  # seconds for which a client waits for the server to come back


class Load:
    """Threads that use the server at `address` until they are stopped, through its failures."""

    def __init__(
        self, address: str, actions: Actions, seed: str, resources_may_run_out: bool = False
    ) -> None:
        """What is done is chosen by `seed`; when, by the machine."""
        self._address = address
        self._tolerated = (UnavailableError, *[ResourceExhaustedError] * resources_may_run_out)
        self._stopping = threading.Event()
        self._mu = threading.Lock()
        self._problems: list[str] = []
        self._threads = [
            threading.Thread(target=self._repeat, args=(action, f"{seed}/{action.__name__}"))
            for action in actions.all()
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> list[str]:
        """Waits for all threads; what was wrong with the answers that they got."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        return self._problems

    def _repeat(self, action: Any, seed: str) -> None:
        chance = random.Random(seed)
        with Client(self._address, timeout=OUTAGE, patience=Patience(0.05, 0.5, OUTAGE)) as client:
            while not self._stopping.is_set():
                try:
                    self._note(action(client, chance))
                except self._tolerated:
                    self._stopping.wait(0.05)
                except Exception as error:  # of whatever kind, it is a finding
                    self._note([f"{action.__name__}: {type(error).__name__}: {error}"])
                self._stopping.wait(chance.uniform(0, 0.1))

    def _note(self, problems: Iterable[str]) -> None:
        found = list(problems)
        with self._mu:
            self._problems += found
