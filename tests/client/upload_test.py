"""Uploading sets to the real lorsad, over networks and servers that break."""

from __future__ import annotations

import asyncio
import pathlib
import random
import sys

import lorsa
import pytest
from cutting_proxy import CuttingProxy
from lorsa.client import Client, Patience
from lorsa.client.errors import AlreadyExistsError, NotFoundError
from lorsa.errors import LorsaError
from lorsa.files import sha256_of
from lorsa.harvest.command import main as harvest
from service import PATIENCE, ROOT, Service
from synthetic_set import write_set

sys.path.insert(0, str(ROOT / "client" / "python" / "tests"))
from tiny_models import llama, save_model, write_text

QUICK = Patience(0.05, 0.2, PATIENCE)


def same_files(folder: pathlib.Path, there: str) -> bool:
    """Whether the server has each shard of a folder."""
    shards = sorted(folder.glob("shard-*.h5"))
    return all(sha256_of(path) == sha256_of(pathlib.Path(there) / path.name) for path in shards)


def test_a_set_is_uploaded_registered_and_known_again(
    lorsad: Service, tmp_path: pathlib.Path
) -> None:
    write_set(tmp_path / "mine")
    seen: list[tuple[int, int]] = []
    with Client(lorsad.address) as client:
        uploaded = client.sets.upload(
            "mine", str(tmp_path / "mine"), lambda done, total: seen.append((done, total))
        )
        assert (uploaded.name, uploaded.sequences) == ("activationSets/mine", 300)
        assert uploaded.uploaded
        assert same_files(tmp_path / "mine", uploaded.path)
        total = sum(path.stat().st_size for path in (tmp_path / "mine").iterdir())
        assert seen == sorted(seen)
        assert seen[-1] == (total, total)

        write_set(tmp_path / "other", seed=1)
        with pytest.raises(AlreadyExistsError, match="choose another id"):
            client.sets.upload("mine", tmp_path / "other")
        assert client.sets.verify("mine").ok
        client.sets.delete("mine")
        with pytest.raises(NotFoundError):
            client.sets.get("mine")
        assert not pathlib.Path(uploaded.path).exists()


def test_an_upload_goes_on_through_a_network_that_breaks(
    lorsad: Service, tmp_path: pathlib.Path
) -> None:
    write_set(tmp_path / "mine", sequences=2400)
    total = sum(path.stat().st_size for path in (tmp_path / "mine").iterdir())
    chance = random.Random(6)
    cuts = [chance.randint(500_000, 2_000_000) for _ in range(10)]
    with (
        CuttingProxy(lorsad.address, cuts) as proxy,
        Client(proxy.address, patience=QUICK) as client,
    ):
        uploaded = client.sets.upload("mine", tmp_path / "mine")
        assert proxy.cut == len(cuts)
        assert proxy.uncut_bytes < 0.9 * total, "what had come before was not sent again"
    assert uploaded.sequences == 2400
    assert same_files(tmp_path / "mine", uploaded.path)


def test_an_upload_sits_out_a_restart_of_the_server(
    lorsad: Service, tmp_path: pathlib.Path
) -> None:
    write_set(tmp_path / "mine", sequences=1200)
    was_killed = False

    def kill(done: int, total: int) -> None:
        nonlocal was_killed
        if done > total / 2 and not was_killed:
            was_killed = True
            lorsad.kill()
            lorsad.start()

    with Client(lorsad.address, patience=QUICK) as client:
        uploaded = client.sets.upload("mine", tmp_path / "mine", kill)
    assert was_killed
    assert same_files(tmp_path / "mine", uploaded.path)


def test_what_cannot_be_uploaded_is_said(lorsad: Service, tmp_path: pathlib.Path) -> None:
    with Client(lorsad.address) as client:
        (tmp_path / "empty").mkdir()
        with pytest.raises(LorsaError, match="holds no shard"):
            client.sets.upload("empty", tmp_path / "empty")
        write_set(tmp_path / "shrinking", sequences=600, shards=1)
        shard = tmp_path / "shrinking" / "shard-00000.h5"

        def shrink(done: int, total: int) -> None:
            if done > 0:
                shard.write_bytes(b"")

        with pytest.raises(LorsaError, match="became shorter"):
            client.sets.upload("shrinking", tmp_path / "shrinking", shrink)


def test_the_twin_for_asyncio_uploads(lorsad: Service, tmp_path: pathlib.Path) -> None:
    write_set(tmp_path / "mine", sequences=1200)

    async def use(address: str) -> None:
        async with lorsa.aio.Client(address, patience=QUICK) as client:
            uploaded = await client.sets.upload("mine", tmp_path / "mine")
            assert same_files(tmp_path / "mine", uploaded.path)
            assert (await client.sets.verify("mine")).ok

    with CuttingProxy(lorsad.address, [1_500_000, 2_500_000]) as proxy:
        asyncio.run(use(proxy.address))
        assert proxy.cut == 2


def test_a_harvest_goes_straight_to_a_server(
    lorsad: Service, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(tmp_path / "model", llama())
    text = write_text(tmp_path / "words.txt", 3000)
    arguments = ["--model", tmp_path / "model", "--text", text, "--context", 16, "--tokens", 3200]
    arguments += ["--layer", 0, "--layer", 1, "--out", tmp_path / "tiny"]
    command = [str(each) for each in arguments]
    assert harvest([*command, "--upload", "127.0.0.1:9"]) == 1
    assert "is lorsad running there" in capsys.readouterr().err
    assert not (tmp_path / "tiny").exists(), "found out before the harvest"
    for _ in range(2):  # the same command again: all of it is there
        assert harvest([*command, "--upload", lorsad.address]) == 0
        assert f"uploaded tiny-layer-01 to {lorsad.address}" in capsys.readouterr().out
    with Client(lorsad.address) as client:
        found = {each.name: each for each in client.sets.list()}
    assert set(found) == {"activationSets/tiny-layer-00", "activationSets/tiny-layer-01"}
    manifest = tmp_path / "tiny" / "layer-01" / "manifest.json"
    assert found["activationSets/tiny-layer-01"].manifest_sha256 == sha256_of(manifest)
