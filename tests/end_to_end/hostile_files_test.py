"""Files made to do harm, given to the real lorsad in every way that files come in.

Each is refused with a sentence that names it, soon, and lorsad neither grows nor falls.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import struct
import time
from collections.abc import Callable, Iterator

import h5py
import numpy as np
import pytest
import service as service_module
from service import BIN, Service
from synthetic_set import CONTEXT, D_MODEL, write_set

SOON = 60.0  # seconds
MAX_RESIDENT_KIB = 256 << 10
SEQUENCES = 150  # of each shard

Spoil = Callable[[pathlib.Path], None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One lorsad for all files, whose memory is looked at after each."""
    with Service(tmp_path_factory.mktemp("hostile")) as server:
        yield server


def peak_memory_kib(service: Service) -> int:
    assert service.process is not None
    status = pathlib.Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def expect_refused(service: Service, name: str, reason: str, *command: str | pathlib.Path) -> None:
    start = time.monotonic()
    result = service.cli(*command, ok=False)
    assert result.returncode == 1, result.stdout
    assert name in result.stderr, result.stderr
    assert reason in result.stderr, result.stderr
    assert time.monotonic() - start < SOON
    assert peak_memory_kib(service) < MAX_RESIDENT_KIB
    assert service.cli("info").returncode == 0


# --- Shards ---


def replace(path: pathlib.Path, name: str, make: Callable[[h5py.File], None]) -> None:
    with h5py.File(path, "r+") as file:
        del file[name]
        make(file)


def in_place_of(name: str, make: Callable[[h5py.File], None]) -> Spoil:
    return lambda path: replace(path, name, make)


def link(target: object) -> Spoil:
    def make(file: h5py.File) -> None:
        file["mask"] = target

    return in_place_of("mask", make)


def external_storage(file: h5py.File) -> None:
    file.create_dataset(
        "mask",
        (SEQUENCES, CONTEXT),
        "u1",
        external=[("/etc/passwd", 0, SEQUENCES * CONTEXT)],
    )


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((SEQUENCES, CONTEXT), "u1")
    layout[:] = h5py.VirtualSource("/etc/passwd", "mask", (SEQUENCES, CONTEXT))
    file.create_virtual_dataset("mask", layout)


def unknown_filter(file: h5py.File) -> None:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((1, CONTEXT))
    properties.set_filter(32001, h5py.h5z.FLAG_OPTIONAL)  # of a plugin that nobody has
    space = h5py.h5s.create_simple((SEQUENCES, CONTEXT))
    h5py.h5d.create(file.id, b"mask", h5py.h5t.STD_U8LE, space, properties)


def cycle(file: h5py.File) -> None:
    group = file.create_group("mask")
    group["self"] = group
    group["root"] = file["/"]


def abyss(file: h5py.File) -> None:
    group = file.create_group("mask")
    for _ in range(3000):
        group = group.create_group("g")


def shape(dims: tuple[int, ...], chunks: tuple[int, ...]) -> Spoil:
    return in_place_of(
        "mhsa_input", lambda file: file.create_dataset("mhsa_input", dims, "f4", chunks=chunks)
    )


def truncate(path: pathlib.Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def fifo(path: pathlib.Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: pathlib.Path) -> None:
    path.unlink()
    os.mknod(path, 0o020600, os.makedev(1, 5))  # /dev/zero


def link_outside(path: pathlib.Path) -> None:
    outside = path.parent.parent.parent / f"outside-{path.parent.name}"
    path.rename(outside)
    path.symlink_to(outside)


def noise(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    header = slice(8, 2048)
    data[header] = np.random.default_rng(0).bytes(2040)
    path.write_bytes(data)


def description(text: str) -> Spoil:
    def spoil(path: pathlib.Path) -> None:
        with h5py.File(path, "r+") as file:
            file.attrs["lorsa_set"] = np.bytes_(text)

    return spoil


SHARDS: dict[str, tuple[Spoil, str]] = {
    "external-link": (link(h5py.ExternalLink("/etc/passwd", "mask")), "soft or external link"),
    "soft-link-loop": (link(h5py.SoftLink("/mask")), "soft or external link"),
    "external-storage": (in_place_of("mask", external_storage), "keeps its data in other files"),
    "virtual": (in_place_of("mask", virtual), "neither contiguous nor chunked"),
    "plugin": (in_place_of("mask", unknown_filter), "uses filter 32001"),
    "cyclic-groups": (in_place_of("mask", cycle), "cannot be opened as a dataset"),
    "deep-nesting": (in_place_of("mask", abyss), "cannot be opened as a dataset"),
    "giant-shape": (shape((1 << 40, CONTEXT, D_MODEL), (1 << 8, 32, 32)), "chunks"),
    "tiny-chunks": (shape((1 << 20, CONTEXT, D_MODEL), (1, 1, 1)), "more than 16384 chunks"),
    "huge-chunks": (shape((1 << 12, 1 << 10, 1 << 9), (1 << 12, 1 << 10, 200)), "beyond the bound"),
    "truncated": (truncate, "shard-00001.h5"),
    "noise": (noise, "shard-00001.h5"),
    "fifo": (fifo, "not a regular file"),
    "device": (device, "not a regular file"),
    "link-outside": (link_outside, "symbolic links are not followed"),
    "nested-description": (description('{"layer":' + "[" * 60000), "lorsa_set"),
}


@pytest.mark.parametrize("kind", SHARDS)
def test_a_hostile_shard_is_refused_and_named(server: Service, kind: str) -> None:
    spoil, reason = SHARDS[kind]
    folder = server.sets / kind
    write_set(folder)
    spoil(folder / "shard-00001.h5")
    expect_refused(server, "shard-00001.h5", reason, "set", "register", kind, folder)
    assert not (folder / "manifest.json").exists()


@pytest.mark.parametrize("kind", ["external-link", "tiny-chunks", "truncated", "noise"])
def test_a_hostile_shard_that_was_uploaded_is_refused_and_named(
    server: Service, tmp_path: pathlib.Path, kind: str
) -> None:
    spoil, reason = SHARDS[kind]
    write_set(tmp_path / "mine")
    spoil(tmp_path / "mine" / "shard-00001.h5")
    command = ("set", "upload", f"uploaded-{kind}", tmp_path / "mine")
    expect_refused(server, "shard-00001.h5", reason, *command)


# --- Documents and weights ---


def safetensors(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def tensors(*ranges: tuple[int, int], size: int = 64) -> bytes:
    entries = {
        f"t{i}": {"dtype": "F32", "shape": [(end - begin) // 4], "data_offsets": [begin, end]}
        for i, (begin, end) in enumerate(ranges)
    }
    return safetensors(json.dumps(entries).encode(), bytes(size))


WEIGHTS: dict[str, bytes] = {
    "overlapping": tensors((0, 32), (16, 64)),
    "gap": tensors((0, 16), (32, 64)),
    "backwards": safetensors(b'{"t":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}}', bytes(16)),
    "beyond-the-end": tensors((0, 64), (64, 1 << 40)),
    "overflow": safetensors(
        b'{"t":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}}', bytes(16)
    ),
    "giant-header": safetensors(b"{" + b" " * 100_000_000 + b"}"),
    "header-beyond-the-end": struct.pack("<Q", 1 << 63),
    "nested": safetensors(b'{"t":' + b"[" * 15_000_000),
    "many-values": safetensors(b'{"t":{"shape":[' + b"1," * 8_000_000 + b"1]}}"),
    "duplicates": safetensors(b"{" + b",".join([b'"t":{}'] * 2_000_000) + b"}"),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_hostile_weights_beside_a_set_are_refused_and_named(server: Service, kind: str) -> None:
    folder = server.sets / f"weights-{kind}"
    write_set(folder)
    (folder / "attention.safetensors").write_bytes(WEIGHTS[kind])
    reason = "is not a valid safetensors file"
    expect_refused(server, "attention.safetensors", reason, "set", "register", folder.name, folder)


MANIFESTS: dict[str, bytes] = {
    "nested": b"[" * 1_000_000,
    "many-values": b'{"shards":[' + b"[]," * 5_000_000 + b"[]]}",
    "many-names": b"{" + b",".join(b'"%d":1' % i for i in range(1_000_000)) + b"}",
    "path": b'{"shards":[{"file":"../../../etc/passwd"}]}',
    "too-long": b" " * (33 << 20),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_hostile_manifest_is_refused_and_named(server: Service, kind: str) -> None:
    folder = server.sets / f"manifest-{kind}"
    write_set(folder)
    (folder / "manifest.json").write_bytes(MANIFESTS[kind])
    expect_refused(server, "manifest.json", "", "set", "register", folder.name, folder)


def write_checkpoint(folder: pathlib.Path, files: dict[str, bytes]) -> None:
    """A folder whose manifest is right about its files."""
    folder.mkdir()
    listed = {}
    for name, data in files.items():
        (folder / name).write_bytes(data)
        listed[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps({"files": listed}))


@pytest.mark.parametrize("kind", WEIGHTS)
def test_a_checkpoint_with_hostile_weights_is_not_imported(server: Service, kind: str) -> None:
    folder = server.sets / f"checkpoint-{kind}"
    write_checkpoint(folder, {"config.json": b"{}", "lorsa.safetensors": WEIGHTS[kind]})
    command = ("checkpoint", "import", folder.name, folder)
    expect_refused(server, "lorsa.safetensors", "is not a valid safetensors file", *command)
    assert server.cli("job", "show", folder.name, ok=False).returncode == 1


CHECKPOINTS: dict[str, tuple[str, bytes | Spoil]] = {
    "nested": ("config.json", b"[" * 500_000),
    "not-json": ("state.json", b"\xff\xfe"),
    "fifo": ("state.json", fifo),
    "link": ("lorsa.safetensors", link_outside),
    "manifest-nested": ("manifest.json", b'{"files":' + b"[" * 500_000),
    "manifest-path": ("manifest.json", b'{"files":{"../../x":{"bytes":1,"sha256":""}}}'),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_a_hostile_checkpoint_is_not_imported(server: Service, kind: str) -> None:
    name, spoil = CHECKPOINTS[kind]
    folder = server.sets / f"import-{kind}"
    good = {"config.json": b"{}", "state.json": b"{}", "lorsa.safetensors": tensors((0, 64))}
    if isinstance(spoil, bytes):
        write_checkpoint(folder, {**good, name: spoil} if name in good else good)
        (folder / name).write_bytes(spoil)
    else:
        write_checkpoint(folder, good)
        spoil(folder / name)
    expect_refused(server, name, "", "checkpoint", "import", folder.name, folder)


# --- The server ---


def test_after_all_of_them_a_good_set_is_registered(server: Service) -> None:
    server.add_set("good")
    server.cli("set", "verify", "good")
    print(f"lorsad took {peak_memory_kib(server) >> 10} MiB at most")


def test_a_registered_folder_replaced_by_a_link_is_not_followed(
    server: Service, tmp_path: pathlib.Path
) -> None:
    folder = server.add_set("moved")
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    expect_refused(server, "moved", "symbolic links are not followed", "set", "verify", "moved")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [("kill -SEGV $$", "signal 11"), ("exit 3", "needs more memory"), ("exit 0", "status 0")],
)
def test_a_file_that_brings_the_reader_down_leaves_the_server_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, harm: str, reason: str
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy(BIN / "lorsad", programs)
    for name in ("lorsa", "lorsa-worker"):
        (programs / name).symlink_to(BIN / name)
    reader = programs / "lorsa-inspect"
    reader.write_text(f"#!/bin/sh\necho reading shard-00001.h5\n{harm}\n")
    reader.chmod(0o755)
    monkeypatch.setattr(service_module, "BIN", programs)
    with Service(tmp_path) as service:
        write_set(service.sets / "set")
        command = ("set", "register", "set", service.sets / "set")
        expect_refused(service, "shard-00001.h5", reason, *command)
        # With a reader that works again, the set is as good as it is.
        reader.unlink()
        reader.symlink_to(BIN / "lorsa-inspect")
        service.cli(*command)
