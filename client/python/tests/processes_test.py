"""Several processes harvest what one does."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from lorsa.errors import LorsaError
from lorsa.harvest import state
from lorsa.manifest import TRANSFORMER_LENS

Harvest = Callable[..., list[Path]]


def _contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_several_processes_write_the_same_bytes(run_harvest: Harvest, tmp_path: Path) -> None:
    """Also where some shards were there before; TransformerLens' convention reaches them too."""
    options = {"layers": (0, 1), "sequences_per_shard": 4, "hook_convention": TRANSFORMER_LENS}
    run_harvest(tmp_path / "one", **options)
    run_harvest(tmp_path / "several", processes=2, **options)
    assert _contents(tmp_path / "several") == _contents(tmp_path / "one")
    for path in tmp_path.glob("several/layer-*"):
        (path / "manifest.json").unlink()
        (path / "shard-00001.h5").unlink()
    kept = tmp_path / "several" / "layer-00" / "shard-00002.h5"
    before = kept.stat().st_mtime_ns
    run_harvest(tmp_path / "several", processes=3, **options)
    assert _contents(tmp_path / "several") == _contents(tmp_path / "one")
    assert kept.stat().st_mtime_ns == before


def _hold(lock: object, connection: Connection) -> None:
    """Lives until it is told to end."""
    connection.send("here")
    connection.recv()


def test_the_folder_is_locked_as_long_as_one_process_lives(tmp_path: Path) -> None:
    """Also one whose parent was killed in the middle of a shard."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with state.locked_folder(tmp_path / "set") as lock:
        process = context.Process(target=_hold, args=(lock, theirs))
        process.start()
        assert ours.recv() == "here"
    with (
        pytest.raises(LorsaError, match="Another harvest is writing"),
        state.locked_folder(tmp_path / "set"),
    ):
        pass
    ours.send("end")
    process.join()
    with state.locked_folder(tmp_path / "set"):
        pass


def test_a_process_that_is_killed_ends_the_harvest(run_harvest: Harvest, tmp_path: Path) -> None:
    def kill_one() -> None:
        while not (children := multiprocessing.active_children()):
            time.sleep(0.01)
        children[0].kill()

    killer = threading.Thread(target=kill_one)
    killer.start()
    with pytest.raises(LorsaError, match=r"ended from outside.*fewer --processes"):
        run_harvest(tmp_path / "set", processes=2)
    killer.join()
    assert multiprocessing.active_children() == []
    assert not list(tmp_path.glob("set/manifest.json"))


def test_an_error_in_a_process_is_the_harvests(run_harvest: Harvest, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "shard-00001.h5.tmp").mkdir()  # stands where the shard is to be written
    with pytest.raises(OSError, match=r"shard-00001\.h5\.tmp"):
        run_harvest(tmp_path / "set", processes=2)
