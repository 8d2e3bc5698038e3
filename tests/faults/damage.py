"""Bytes that flip and files that end early, one place per region of each file format."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass

import h5py

SQLITE_PAGE = 4096  # server/catalog does not change SQLite's default
WAL_HEADER, FRAME_HEADER = 32, 24  # https://sqlite.org/fileformat2.html#walformat


@dataclass(frozen=True)
class Damage:
    """One file of a folder with one byte flipped, or cut off at a size."""

    file: str
    region: str
    offset: int
    cuts: bool = False

    def __str__(self) -> str:
        return f"{self.file}, {self.region}: {'cut' if self.cuts else 'flipped'} at {self.offset}"

    def do(self, folder: pathlib.Path) -> None:
        with (folder / self.file).open("r+b") as file:
            if self.cuts:
                file.truncate(self.offset)
                return
            file.seek(self.offset)
            byte = file.read(1)[0]
            file.seek(self.offset)
            file.write(bytes([byte ^ 0x10]))


def _cuts(file: pathlib.Path, **sizes: int) -> list[Damage]:
    return [Damage(file.name, region, size, cuts=True) for region, size in sizes.items()]


def _flips(file: pathlib.Path, **offsets: int) -> list[Damage]:
    return [Damage(file.name, region, offset) for region, offset in offsets.items()]


def in_json(file: pathlib.Path) -> list[Damage]:
    size = file.stat().st_size
    return [
        *_flips(file, beginning=0, middle=size // 2, end=size - 1),
        *_cuts(file, nothing_left=0, half=size // 2),
    ]


def in_safetensors(file: pathlib.Path) -> list[Damage]:
    size = file.stat().st_size
    with file.open("rb") as contents:
        header = int.from_bytes(contents.read(8), "little")
    tensors = 8 + header
    return [
        *_flips(file, length=0, high_byte_of_length=7, header=8 + header // 2),
        *_flips(file, first_tensor=tensors, middle=(tensors + size) // 2, last=size - 1),
        *_cuts(file, nothing_left=0, within_header=tensors // 2, header_alone=tensors),
        *_cuts(file, one_byte_less=size - 1),
    ]


def in_hdf5(file: pathlib.Path) -> list[Damage]:
    """Superblock, what describes the datasets, and the first, middle and last byte of each."""
    size = file.stat().st_size
    damages = _flips(file, signature=1, superblock=13, root_group=70)
    first = size
    with h5py.File(file) as contents:
        for name, dataset in contents.items():
            start, length = dataset.id.get_offset(), dataset.id.get_storage_size()
            first = min(first, start)
            regions = {"first": start, "middle": start + length // 2, "last": start + length - 1}
            damages += [Damage(file.name, f"{name}, {k}", at) for k, at in regions.items()]
    damages += [Damage(file.name, "metadata", first * part // 6) for part in range(1, 6)]
    return [*damages, *_cuts(file, nothing_left=0, metadata_alone=first, one_less=size - 1)]


def in_checkpoint(folder: pathlib.Path) -> list[Damage]:
    damages = []
    for file in sorted(folder.iterdir()):
        damages += in_json(file) if file.suffix == ".json" else in_safetensors(file)
    return damages


def in_set(folder: pathlib.Path) -> list[Damage]:
    """Of a sealed set: its manifest, the last shard, the checksums and the layer's weights."""
    shards = json.loads((folder / "manifest.json").read_text())["shards"]
    return [
        *in_json(folder / "manifest.json"),
        *in_hdf5(folder / shards[-1]["file"]),
        *in_hdf5(folder / "checksums.h5"),
        *in_safetensors(folder / "attention.safetensors"),
    ]


def in_catalog(file: pathlib.Path) -> list[Damage]:
    """The header, and of several pages the b-tree's header and its pointers to cells."""
    size = file.stat().st_size
    damages = _flips(file, magic=0, page_size=16, write_version=18, change_counter=27, version=60)
    damages += _flips(file, schema_root=100, schema_cells=104, schema_text=SQLITE_PAGE - 50)
    pages = size // SQLITE_PAGE
    for page in sorted({1, 2, pages // 4, pages // 2, pages * 3 // 4, pages - 1}):
        at = page * SQLITE_PAGE
        damages += [Damage(file.name, f"page {page}, type", at)]
        damages += [Damage(file.name, f"page {page}, number of cells", at + 4)]
        damages += [Damage(file.name, f"page {page}, pointers to cells", at + 9)]
    middle = size // 2 // SQLITE_PAGE * SQLITE_PAGE
    return [
        *damages,
        *_cuts(file, nothing_left=0, header_alone=100, half=middle, within_a_page=middle + 100),
        *_cuts(file, one_page_less=size - SQLITE_PAGE, one_byte_less=size - 1),
    ]


def in_catalog_log(file: pathlib.Path) -> list[Damage]:
    """SQLite's write-ahead log, as a server that was killed leaves it."""
    size = file.stat().st_size
    frame = FRAME_HEADER + SQLITE_PAGE
    frames = (size - WAL_HEADER) // frame
    middle = WAL_HEADER + frames // 2 * frame
    last = WAL_HEADER + (frames - 1) * frame
    return [
        *_flips(file, magic=0, page_size=9, salt=17, checksum=25),
        *_flips(file, first_frame=WAL_HEADER + 1, frame_page=middle + FRAME_HEADER + 99),
        *_flips(file, frame_commit=last + 7, frame_checksum=last + 17, last_byte=size - 1),
        *_cuts(file, nothing_left=0, header_alone=WAL_HEADER, middle=middle + 1, last=size - 1),
    ]
