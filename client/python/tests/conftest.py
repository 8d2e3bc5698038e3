"""Fixtures shared by the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_models import llama, save_model, write_text

from lorsa.harvest.harvester import harvest
from lorsa.harvest.options import HarvestOptions
from lorsa.harvest.source_model import ModelSource


class NoProgress:
    """Reports to nobody."""

    def start(self, total: int, done: int) -> None:
        pass

    def advance(self, tokens: int) -> None:
        pass

    def end(self) -> None:
        pass


@pytest.fixture(scope="session")
def harvest_date() -> str:
    """When every harvest of the tests takes place."""
    return "2026-01-02T03:04:05Z"


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama with its tokenizer."""
    return save_model(tmp_path_factory.mktemp("llama"), llama())


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,000 words."""
    return write_text(tmp_path_factory.mktemp("text") / "words.txt", 4000)


@pytest.fixture(scope="session")
def run_harvest(
    llama_folder: Path, text_file: Path, harvest_date: str
) -> Callable[..., list[Path]]:
    """Harvests 20 sequences of 16 tokens of the small Llama; keyword arguments change that."""

    def run(
        out: Path, model: Path = llama_folder, dtype: str = "fp32", **changes: Any
    ) -> list[Path]:
        options: dict[str, Any] = {
            "source": ModelSource(str(model), None, dtype),
            "layers": (1,),
            "texts": (str(text_file),),
            "context": 16,
            "tokens": 320,
            "out": out,
            "batch": 3,
            "sequences_per_shard": 8,
        }
        return harvest(HarvestOptions(**(options | changes)), NoProgress(), lambda: harvest_date)

    return run
