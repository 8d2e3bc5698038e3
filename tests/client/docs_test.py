"""The code of the pages docs/notebook.md and docs/pytorch.md runs as it stands there, but for the
names of what it works on."""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

import pytest
from service import PATIENCE, ROOT, Service

sys.path.insert(0, str(ROOT / "client" / "python" / "tests"))
from tiny_models import llama, save_model, write_text

LAYER = 1


def code_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def harvest(folder: pathlib.Path) -> None:
    """A small model in model/, and what its layer does in sets/smollm2-l12."""
    from lorsa.harvest.command import main

    save_model(folder / "model", llama())
    text = write_text(folder / "words.txt", 30_000)
    arguments = ["--model", folder / "model", "--layer", LAYER, "--text", text, "--context", 16]
    arguments += ["--tokens", 16 * 300, "--dtype", "fp32", "--out", folder / "sets/smollm2-l12"]
    assert main([str(each) for each in arguments]) == 0


def test_the_pages_of_the_notebook_and_of_pytorch(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harvest(tmp_path)
    service = Service(tmp_path)
    try:
        service.start()
        service.cli("set", "register", "smollm2-l12", service.sets / "smollm2-l12")
        monkeypatch.chdir(tmp_path)
        names: dict[str, Any] = {"LAYER": LAYER}
        pages = (*code_of("notebook.md"), *code_of("pytorch.md"))
        assert len(pages) == 6
        for code in pages:
            code = code.replace("127.0.0.1:7070", service.address)
            code = code.replace("245760", '1600, "threads": 1')
            exec(code, names)
        assert names["job"].wait(PATIENCE).state == "SUCCEEDED"
        assert (tmp_path / "lorsa-l12" / "lorsa.safetensors").exists()
        assert "INVALID_FIELDS" in capsys.readouterr().out
        assert names["ablated"].shape == names["logits"].shape
    finally:
        service.close()
