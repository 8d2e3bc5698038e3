"""The `lorsa-harvest` command and its progress."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from lorsa.harvest.command import main
from lorsa.harvest.progress import Lines
from lorsa.harvest.source_model import ModelSource


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["--help"])
    assert exit.value.code == 0
    assert "lorsa-harvest --model ~/models/SmolLM2-135M --layer 12" in capsys.readouterr().out


def test_a_pipe_gets_plain_lines_alone(llama_folder: Path, text_file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lorsa.harvest", "--model", str(llama_folder)]
    rest = ["--layer", "0", "--text", str(text_file), "--context", "16", "--tokens", "330"]
    done = subprocess.run(
        [*command, *rest, "--out", str(tmp_path / "set")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"sealed {tmp_path / 'set'}: 20 sequences of 16 tokens\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("harvest: 320 of 320 tokens, ")
    assert line.endswith(" tokens/s")


def test_errors_are_one_sentence_and_an_exit_code(
    llama_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model", str(llama_folder), "--layer", "0", "--text", "/nowhere"]
    assert main([*arguments, "--out", str(tmp_path / "set")]) == 1
    assert capsys.readouterr().err == "lorsa-harvest: --text /nowhere matches no file.\n"


@pytest.mark.parametrize(
    ("option", "value"), [("--context", "1"), ("--tokens", "0"), ("--layer", "-1"), ("--seed", "x")]
)
def test_numbers_out_of_range_name_the_option(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    required = ["--model", "m", "--layer", "0", "--text", "t", "--out", "o"]
    with pytest.raises(SystemExit) as exit:
        main([*required, option, value])
    assert exit.value.code == 2
    assert f"argument {option}: must be an integer from" in capsys.readouterr().err


def test_lines_come_every_ten_seconds_with_the_rate_of_this_run() -> None:
    now, stream = 100.0, io.StringIO()
    progress = Lines(stream, lambda: now)
    progress.start(total=4000, done=1000)
    for _ in range(5):
        now += 4.0
        progress.advance(400)
    progress.end()
    progress.end()  # nothing new to say
    assert stream.getvalue().splitlines() == [
        "harvest: 2200 of 4000 tokens, 100 tokens/s",
        "harvest: 3000 of 4000 tokens, 100 tokens/s",
    ]


@pytest.mark.parametrize(
    ("file", "name", "revision"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct", "Q4_1"),
        ("llama-7b-q4_k_m.gguf", "llama-7b", "q4_k_m"),
        ("model-F16.gguf", "model", "F16"),
        ("plain.gguf", "plain", "gguf"),
    ],
)
def test_names_of_gguf_files(file: str, name: str, revision: str) -> None:
    source = ModelSource("/models", file, "bf16")
    assert (source.default_name(), source.default_revision(None)) == (name, revision)
