"""Files that change while lorsad reads them, and folders that have several names.

The server opens no file that its child has not parsed, and deletes no file that a set needs.
"""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import google_crc32c
import grpc
import pytest
import service as service_module
from service import BIN, ROOT, Service, wait_for
from synthetic_set import write_set

# HDF5 1.10.8 reads a null pointer when it opens this file.
DEADLY_SHARD = ROOT / "tests/fuzz/corpus/shard/regression-library-reads-null"

ENDLESS = (
    "activation_set: 'foo' n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: 100000000 threads: 1 "
    "sequences_per_step: 4"
)


class HeldInspector:
    """lorsa-inspect whose verdict is held back: the child has seen the folder, lorsad has not."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.programs = folder / "programs"
        self.programs.mkdir()
        self._seen = folder / "seen"
        self._go = folder / "go"
        shutil.copy(BIN / "lorsad", self.programs)  # it looks for lorsa-inspect beside itself
        for name in ("lorsa", "lorsa-worker"):
            (self.programs / name).symlink_to(BIN / name)
        inspector = self.programs / "lorsa-inspect"
        inspector.write_text(
            f'#!/bin/sh\nanswer=$({BIN}/lorsa-inspect "$@")\n: > {self._seen}\n'
            f'while [ ! -e {self._go} ]; do /bin/sleep 0.01; done\necho "$answer"\n'
        )
        inspector.chmod(0o755)

    def wait_until_it_has_seen_the_folder(self) -> None:
        wait_for("the child to have read the folder", self._seen.exists)

    def release(self) -> None:
        self._go.touch()


@pytest.fixture
def inspector(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldInspector]:
    inspector = HeldInspector(tmp_path)
    monkeypatch.setattr(service_module, "BIN", inspector.programs)
    yield inspector
    inspector.release()


class Registration(threading.Thread):
    """RegisterActivationSet under way."""

    def __init__(self, api: SimpleNamespace, channel: grpc.Channel, set_id: str, path: str) -> None:
        super().__init__()
        self._stub = api.activation_service_pb2_grpc.ActivationServiceStub(channel)
        self._request = api.activation_service_pb2.RegisterActivationSetRequest(
            activation_set_id=set_id, path=path
        )
        self.code = grpc.StatusCode.OK
        self.message = ""
        self.start()

    def run(self) -> None:
        try:
            list(self._stub.RegisterActivationSet(self._request))
        except grpc.RpcError as error:
            self.code = error.code()
            self.message = error.details()


def upload(api: SimpleNamespace, channel: grpc.Channel, set_id: str, name: str, data: bytes) -> str:
    """Sends one file; the reason of the refusal, or nothing."""
    messages = api.activation_service_pb2
    start = messages.UploadStart(
        activation_set_id=set_id,
        file=name,
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    requests = [messages.UploadShardRequest(start=start)]
    for i in range(0, len(data), 1 << 20):
        piece = data[i : i + (1 << 20)]
        part = messages.UploadData(data=piece, crc32c=google_crc32c.value(piece))
        requests.append(messages.UploadShardRequest(data=part))
    try:
        api.activation_service_pb2_grpc.ActivationServiceStub(channel).UploadShard(iter(requests))
    except grpc.RpcError as error:
        return str(error.details())
    return ""


def upload_set(
    api: SimpleNamespace, channel: grpc.Channel, set_id: str, folder: pathlib.Path
) -> None:
    write_set(folder)
    for path in sorted(folder.iterdir()):
        assert upload(api, channel, set_id, path.name, path.read_bytes()) == ""


def expect_alive(lorsad: Service) -> None:
    assert lorsad.process is not None
    assert lorsad.process.poll() is None, lorsad.log.read_text()
    lorsad.cli("info")


def test_a_shard_uploaded_during_a_registration_is_refused(
    inspector: HeldInspector,
    lorsad: Service,
    api: SimpleNamespace,
    channel: grpc.Channel,
    tmp_path: pathlib.Path,
) -> None:
    upload_set(api, channel, "set", tmp_path / "local")
    registration = Registration(api, channel, "set", path="")
    inspector.wait_until_it_has_seen_the_folder()
    refusal = upload(api, channel, "set", "shard-00002.h5", DEADLY_SHARD.read_bytes())
    inspector.release()
    registration.join()
    assert "are being sent, registered or deleted" in refusal
    assert registration.code == grpc.StatusCode.OK, registration.message
    expect_alive(lorsad)
    assert lorsad.json("set", "show", "set")[0]["shards"] == 2
    assert "is registered" in upload(api, channel, "set", "shard-00002.h5", b"later")


@pytest.mark.parametrize("name", ["shard-00001.h5", "shard-00002.h5", "checksums.h5"])
def test_a_file_that_changes_after_the_inspection_is_not_opened(
    inspector: HeldInspector,
    lorsad: Service,
    api: SimpleNamespace,
    channel: grpc.Channel,
    name: str,
) -> None:
    folder = lorsad.sets / "set"
    write_set(folder)
    registration = Registration(api, channel, "set", str(folder))
    inspector.wait_until_it_has_seen_the_folder()
    shutil.copy(DEADLY_SHARD, folder / name)
    inspector.release()
    registration.join()
    expect_alive(lorsad)
    assert registration.code == grpc.StatusCode.UNAVAILABLE, registration.message
    assert name in registration.message
    # Without the file the set is as good as before.
    if name == "shard-00001.h5":
        shutil.rmtree(folder)
        write_set(folder)
    else:
        (folder / name).unlink()
    lorsad.cli("set", "register", "set", folder)


def test_files_of_an_upload_stay_while_a_set_of_another_name_needs_them(
    lorsad: Service, api: SimpleNamespace, channel: grpc.Channel, tmp_path: pathlib.Path
) -> None:
    upload_set(api, channel, "bar", tmp_path / "local")
    folder = lorsad.data / "sets/bar"
    lorsad.cli("set", "register", "foo", folder)
    lorsad.cli("job", "submit", "--id", "job", ENDLESS)
    lorsad.wait_for_state("job", "RUNNING")
    refused = lorsad.cli("set", "delete", "bar", ok=False)
    assert refused.returncode == 1
    assert "activationSets/foo" in refused.stderr
    assert "is registered" in upload(api, channel, "bar", "shard-00002.h5", b"more")
    assert (folder / "shard-00000.h5").exists()
    lorsad.cli("set", "verify", "foo")
    # A job that runs keeps its set, whichever name it has.
    assert lorsad.cli("set", "delete", "foo", ok=False).returncode == 1
    lorsad.cli("job", "cancel", "job")
    lorsad.wait_for_state("job", "CANCELLED")
    lorsad.cli("set", "delete", "foo")
    lorsad.cli("set", "delete", "bar")
    assert not folder.exists()
