"""Random faults under load, cycle by cycle on one data folder: nothing acknowledged is lost."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest
from campaign import Campaign


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each cycle, named for what repeats it."""
    if "cycle" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--seed")
        cycles = range(metafunc.config.getoption("--cycles"))
        metafunc.parametrize("cycle", cycles, ids=[f"seed-{seed}-cycle-{i}" for i in cycles])


class Campaigns:
    """The campaign under way. After a failure the next cycle begins with a new folder, so that one
    loss is reported once; the folder that shows it stays.
    """

    def __init__(self, seed: int, new_folder: Callable[[], pathlib.Path]) -> None:
        self._seed = seed
        self._new_folder = new_folder
        self._campaign: Campaign | None = None

    def run(self, part: Callable[[Campaign], None]) -> None:
        if self._campaign is None:
            self._campaign = Campaign(self._new_folder(), self._seed)
        try:
            part(self._campaign)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._campaign is not None:
            self._campaign.close()
        self._campaign = None


@pytest.fixture(scope="module")
def campaigns(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Campaigns]:
    seed = request.config.getoption("--seed")
    campaigns = Campaigns(seed, lambda: tmp_path_factory.mktemp("campaign"))
    yield campaigns
    campaigns.close()


def test_nothing_acknowledged_is_lost(campaigns: Campaigns, cycle: int) -> None:
    campaigns.run(lambda campaign: campaign.cycle(cycle))


def test_every_job_ends_and_leaves_nothing_else_behind(campaigns: Campaigns) -> None:
    campaigns.run(lambda campaign: campaign.finish())
