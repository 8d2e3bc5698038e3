"""A harvest that was killed goes on where it stopped and gives the same set."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_models import llama, save_model

from lorsa.errors import LorsaError
from lorsa.harvest import state
from lorsa.manifest import TRANSFORMER_LENS

Harvest = Callable[..., list[Path]]
SHARDS = 60


def _command(model: Path, text: Path, out: Path) -> list[str]:
    arguments = ["--model", str(model), "--layer", "0", "--layer", "2", "--text", str(text)]
    size = ["--context", "16", "--tokens", str(16 * 4 * SHARDS), "--sequences-per-shard", "4"]
    rest = ["--batch", "3", "--threads", "1", "--out", str(out)]
    return [sys.executable, "-m", "lorsa.harvest", *arguments, *size, *rest]


def _contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; of manifests, all but the date."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    for name in list(found):
        if name.endswith("manifest.json"):
            manifest = json.loads(found[name])
            manifest.pop("created")
            found[name] = json.dumps(manifest).encode()
    return found


def test_a_killed_harvest_resumes_to_the_same_files(
    llama_folder: Path, text_file: Path, tmp_path: Path
) -> None:
    subprocess.run(_command(llama_folder, text_file, tmp_path / "whole"), check=True)

    command = _command(llama_folder, text_file, tmp_path / "killed")
    process = subprocess.Popen(command)
    marker = tmp_path / "killed" / "layer-02" / "shard-00003.h5"
    while not marker.exists() and process.poll() is None:
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    shards = len(list((tmp_path / "killed" / "layer-02").glob("shard-*.h5")))
    assert 4 <= shards < SHARDS
    finished = tmp_path / "killed" / "layer-00" / "shard-00000.h5"
    written_before = finished.stat().st_mtime_ns

    subprocess.run(command, check=True)
    assert finished.stat().st_mtime_ns == written_before  # kept, not made again
    assert _contents(tmp_path / "killed") == _contents(tmp_path / "whole")


def test_a_failed_write_is_an_error_and_the_next_run_goes_on(
    llama_folder: Path, text_file: Path, tmp_path: Path
) -> None:
    """The limit on a file's size stands for a full disk: it holds for one shard, not for all."""
    command = _command(llama_folder, text_file, tmp_path / "set")
    command += ["--tokens", "512", "--sequences-per-shard", "16"]
    limit = 40_000  # bytes: attention.safetensors fits, a shard does not
    failed = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith("lorsa-harvest: ")
    assert "Traceback" not in failed.stderr
    assert not list((tmp_path / "set").rglob("shard-*.h5"))

    subprocess.run(command, check=True)
    assert not list((tmp_path / "set").rglob("*.tmp"))
    assert (tmp_path / "set" / "layer-02" / "manifest.json").exists()


def test_a_layer_that_lacks_a_shard_gets_it(run_harvest: Harvest, tmp_path: Path) -> None:
    whole = run_harvest(tmp_path / "whole", layers=(0, 1))
    torn = run_harvest(tmp_path / "torn", layers=(0, 1))
    for name in ("manifest.json", "checksums.h5"):
        for folder in torn:
            (folder / name).unlink()
    (torn[0] / "shard-00002.h5").unlink()
    (torn[0] / "shard-00002.h5.tmp").write_bytes(b"half a shard")
    run_harvest(tmp_path / "torn", layers=(0, 1))
    assert _contents(tmp_path / "torn") == _contents(tmp_path / "whole")
    assert whole[0].name == "layer-00"


def test_a_sealed_set_is_left_alone(run_harvest: Harvest, tmp_path: Path) -> None:
    (folder,) = run_harvest(tmp_path / "set")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    run_harvest(tmp_path / "set")
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_harvest_of_an_older_version_is_gone_on_with(
    run_harvest: Harvest, tmp_path: Path
) -> None:
    run_harvest(tmp_path / "set")
    state = tmp_path / "set" / "harvest-state.json"
    arguments = json.loads(state.read_text())
    del arguments["hook_convention"]  # there was but one then
    state.write_text(json.dumps(arguments))
    run_harvest(tmp_path / "set")
    with pytest.raises(LorsaError, match="was begun with hook_convention"):
        run_harvest(tmp_path / "set", hook_convention=TRANSFORMER_LENS)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"seed": 1}, "seed = 0, not 1"),
        ({"dtype": "bf16"}, 'element_type = "fp32", not "bf16"'),
        ({"tokens": 160}, "sequences = 20, not 10"),
        ({"context": 8}, "context = 16, not 8"),
        ({"layers": (0,)}, r"layers = \[1\], not \[0\]"),
        ({"batch": 4}, "batch = 3, not 4"),
        ({"sequences_per_shard": 4}, "sequences_per_shard = 8, not 4"),
        ({"texts": (__file__,)}, "text_sha256"),
        ({"model_name": "another"}, "model = "),
    ],
)
def test_other_arguments_are_refused(
    change: dict[str, object], key: str, run_harvest: Harvest, tmp_path: Path
) -> None:
    run_harvest(tmp_path / "set")
    with pytest.raises(LorsaError, match=f"was begun with {key}.* or pass another --out"):
        run_harvest(tmp_path / "set", **change)


def test_other_weights_are_refused(run_harvest: Harvest, tmp_path: Path) -> None:
    for seed in (0, 1):
        save_model(tmp_path / str(seed) / "model", llama(), seed)
    run_harvest(tmp_path / "set", model=tmp_path / "0" / "model")
    with pytest.raises(LorsaError, match="was begun with attention_sha256"):
        run_harvest(tmp_path / "set", model=tmp_path / "1" / "model")


def test_a_folder_with_a_foreign_set_is_refused(run_harvest: Harvest, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "shard-00000.h5").write_bytes(b"somebody else's")
    with pytest.raises(LorsaError, match="no harvest began: pass another --out"):
        run_harvest(tmp_path / "set")
    assert (tmp_path / "set" / "shard-00000.h5").read_bytes() == b"somebody else's"


def test_a_damaged_shard_is_refused_on_resume(run_harvest: Harvest, tmp_path: Path) -> None:
    (folder,) = run_harvest(tmp_path / "set")
    (folder / "manifest.json").unlink()
    path = folder / "shard-00001.h5"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(LorsaError, match=r"shard-00001.h5 cannot be read as HDF5.*Delete it"):
        run_harvest(tmp_path / "set")


def test_two_harvests_into_one_folder_are_refused(run_harvest: Harvest, tmp_path: Path) -> None:
    with (
        state.locked_folder(tmp_path / "set"),
        pytest.raises(LorsaError, match="Another harvest is writing"),
    ):
        run_harvest(tmp_path / "set")
