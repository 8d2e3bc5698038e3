"""The code of the pages docs/notebook.md, docs/pytorch.md and docs/formats.md runs as it stands
there, but for the names of what it works on. (docs/trackers.md: tests/interop/track_test.py.)"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import lorsa
import pytest
from lorsa.manifest import TRANSFORMER_LENS
from pages import code_of, run_shell
from service import PATIENCE, ROOT, Service

sys.path.insert(0, str(ROOT / "client" / "python" / "tests"))
from checkpoints import write_original
from tiny_models import llama, save_model, write_text

LAYER = 1
SET = "smollm2-l12"


def harvest(folder: pathlib.Path) -> None:
    """A small model in model/, and what its layer does in sets/smollm2-l12."""
    from lorsa.harvest.command import main

    save_model(folder / "model", llama())
    text = write_text(folder / "words.txt", 30_000)
    arguments = ["--model", folder / "model", "--layer", LAYER, "--text", text, "--context", 16]
    arguments += ["--tokens", 16 * 300, "--dtype", "fp32", "--out", folder / "sets" / SET]
    assert main([str(each) for each in arguments]) == 0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """lorsad with the harvested set."""
    folder = tmp_path_factory.mktemp("service")
    harvest(folder)
    with Service(folder) as service:
        service.cli("set", "register", SET, service.sets / SET)
        yield service


def test_the_pages_of_the_notebook_and_of_pytorch(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = service.sets.parent
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"LAYER": LAYER}
    pages = (*code_of("notebook.md", "python"), *code_of("pytorch.md", "python"))
    assert len(pages) >= 6
    for code in pages:
        code = code.replace("127.0.0.1:7070", service.address)
        code = code.replace("245760", '1600, "threads": 1').replace("491520", "3200")
        exec(code, names)
    assert names["job"].wait(PATIENCE).state == "SUCCEEDED"
    assert names["longer"].wait(PATIENCE).state == "SUCCEEDED"
    assert (folder / "lorsa-l12" / "lorsa.safetensors").exists()
    assert "INVALID_FIELDS" in capsys.readouterr().out
    assert names["ablated"].shape == names["logits"].shape
    assert len(lorsa.ActivationSet(folder / "sets/part")) == 16


def test_the_page_of_formats(service: Service) -> None:
    folder = service.sets.parent
    spec = {"activation_set": SET, "expansion_factor": 2, "top_k": 8, "tokens": 640, "threads": 1}
    with lorsa.Client(service.address) as client:
        job = client.submit(spec, "demo").wait(PATIENCE)
        job.checkpoint("latest").download(folder / "checkpoint")
    write_original(folder / "paper-code")
    (folder / "sets" / "l12").symlink_to(SET)
    blocks = code_of("formats.md", "bash")
    assert len(blocks) == 3
    for code in blocks:
        run_shell(code, folder, service.address)
    with lorsa.Client(service.address) as client:
        assert client.job("trained-on").wait(PATIENCE).state == "SUCCEEDED"
    made = {"theirs", "ours", "imported", "cache", "hub", "their-hooks"}
    assert made <= {path.name for path in folder.iterdir()}
    assert len(lorsa.ActivationSet(folder / "sets/again")) == 300
    theirs = lorsa.Lorsa.load(folder / "imported")
    assert theirs.config.hook_convention == TRANSFORMER_LENS
