"""Reading sealed sets: numbers, subsets, order, and what damaged or hostile files give."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from lorsa import ActivationSet
from lorsa.element_types import file_type, to_float32
from lorsa.errors import LorsaError
from lorsa.manifest import Manifest

Harvest = Callable[..., list[Path]]
SEQUENCES = 200


@pytest.fixture(scope="module")
def sealed(run_harvest: Harvest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 sequences of 16 positions in bf16, 64 a shard."""
    out = tmp_path_factory.mktemp("sealed") / "set"
    return run_harvest(out, dtype="bf16", tokens=16 * SEQUENCES, sequences_per_shard=64)[0]


@pytest.fixture
def copy(sealed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sealed, tmp_path / "copy"))


def test_reads_across_shards_as_numbers(sealed: Path) -> None:
    with ActivationSet(sealed) as activations:
        assert len(activations) == SEQUENCES
        part = activations.read(60, 10)
    parts = []
    for index, rows in ((0, slice(60, 64)), (1, slice(0, 6))):
        with h5py.File(sealed / f"shard-0000{index}.h5") as shard:
            parts.append({name: shard[name][rows] for name in shard})
    for name in ("mhsa_input", "mhsa_output", "tokens", "mask"):
        want = np.concatenate([rows[name] for rows in parts])
        np.testing.assert_array_equal(getattr(part, name), want)
    assert part.mhsa_input.dtype == np.float32
    assert part.mask.dtype == np.bool_


def test_bf16_bits_decode_exactly() -> None:
    bits = np.array([0x3F80, 0xC049, 0x0001, 0x7F7F, 0x8000], np.uint16)
    want = [1.0, -3.140625, 9.183549615799121e-41, 3.3895313892515355e38, -0.0]
    np.testing.assert_array_equal(to_float32(bits, "bf16"), np.array(want, np.float32))


def test_the_last_sequences_are_held_out(sealed: Path) -> None:
    with ActivationSet(sealed) as activations:
        assert activations.training == range(0, SEQUENCES - 128)
        assert activations.held_out == range(SEQUENCES - 128, SEQUENCES)


@pytest.mark.parametrize(
    ("sequences", "held_out"),
    [(1, 1), (128, 128), (129, 128), (6400, 128), (6401, 129), (10000, 200)],
)
def test_held_out_is_two_percent_but_at_least_128(
    sequences: int, held_out: int, sealed: Path
) -> None:
    manifest = Manifest.read(sealed)
    changed = Manifest(**(vars(manifest) | {"sequences": sequences}))
    assert changed.held_out_sequences == held_out


def test_training_order_visits_each_training_sequence_once_an_epoch(sealed: Path) -> None:
    with ActivationSet(sealed) as activations:
        order = activations.training_order(seed=3)
        count = len(activations.training)
    epochs = [[order.at(e * count + i) for i in range(count)] for e in range(2)]
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert sorted(epoch) == list(range(count))


def test_an_index_out_of_range(sealed: Path) -> None:
    with ActivationSet(sealed) as activations:
        for start, count in ((-1, 1), (SEQUENCES, 1), (0, SEQUENCES + 1), (0, 0)):
            with pytest.raises(IndexError):
                activations.read(start, count)


def test_a_flipped_bit_is_noticed_when_it_is_read(copy: Path) -> None:
    with h5py.File(copy / "shard-00001.h5") as shard:
        offset = shard["mhsa_output"].id.get_offset()
    path = copy / "shard-00001.h5"
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    with ActivationSet(copy) as activations:
        activations.read(65)
        with pytest.raises(LorsaError, match=r"shard-00001.h5 is damaged"):
            activations.read(64)


def test_filtered_chunks_read_as_the_same_sequences(sealed: Path, copy: Path) -> None:
    with h5py.File(copy / "shard-00000.h5", "r+") as shard:
        for name in ("tokens", "mask"):
            values = shard[name][()]
            del shard[name]
            shard.create_dataset(name, data=values, chunks=(1, 16), compression="gzip")
    _record_size(copy)
    with ActivationSet(sealed) as want, ActivationSet(copy) as got:
        np.testing.assert_array_equal(got.read(0, 64).tokens, want.read(0, 64).tokens)


def _record_size(folder: Path) -> None:
    """Puts the first shard's present size into the manifest."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["shards"][0]["bytes"] = (folder / "shard-00000.h5").stat().st_size
    path.write_text(json.dumps(manifest))


def _drop_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def _truncate(folder: Path) -> None:
    path = folder / "shard-00000.h5"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _not_hdf5(folder: Path) -> None:
    path = folder / "shard-00000.h5"
    path.write_bytes(bytes(path.stat().st_size))


def _external_link(folder: Path) -> None:
    with h5py.File(folder / "shard-00000.h5", "r+") as shard:
        del shard["mhsa_input"]
        shard["mhsa_input"] = h5py.ExternalLink("/etc/passwd", "/mhsa_input")
    _record_size(folder)


def _external_storage(folder: Path) -> None:
    with h5py.File(folder / "shard-00000.h5", "r+") as shard:
        del shard["tokens"]
        shard.create_dataset("tokens", (64, 16), "<i4", external=[("/etc/passwd", 0, 4096)])
    _record_size(folder)


def _wrong_shape(folder: Path) -> None:
    with h5py.File(folder / "shard-00000.h5", "r+") as shard:
        del shard["mask"]
        shard["mask"] = np.ones((64, 15), np.uint8)
    _record_size(folder)


def _wrong_type(folder: Path) -> None:
    with h5py.File(folder / "shard-00000.h5", "r+") as shard:
        del shard["tokens"]
        shard["tokens"] = np.zeros((64, 16), np.int64)
    _record_size(folder)


def _edit(**changes: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_drop_manifest, "is not a sealed set: it has no manifest.json"),
        (_truncate, "shard-00000.h5 is missing or has another size"),
        (_not_hdf5, "shard-00000.h5 cannot be read as HDF5"),
        (_external_link, "mhsa_input must be a dataset of the root group"),
        (_external_storage, "tokens keeps its values in other files"),
        (_wrong_shape, r"mask has shape \(64, 15\), not \(64, 16\)"),
        (_wrong_type, "tokens has another element type"),
        (lambda folder: (folder / "checksums.h5").unlink(), "checksums.h5 cannot be read"),
        (_edit(format_version=2), "format_version is 2; this version reads 1"),
        (_edit(surprise=1), "does not know: surprise"),
        (_edit(sequences=7), "do not add up"),
        (_edit(context=1 << 40), "context must be an integer from 1 to 1048576"),
        (_edit(context=1 << 20, d_model=1 << 16), "is larger than"),
        (_edit(element_type="fp8"), "'fp8'; it must be bf16 or fp16 or fp32"),
        (_edit(hook_convention="other"), "hook_convention is 'other'"),
        (_edit(checksums={"file": "../x", "bytes": 1, "sha256": "0" * 64}), "a bare file name"),
        (_edit(shards=[]), "must be a list of 1 to"),
    ],
)
def test_damaged_sets_are_refused(
    damage: Callable[[Path], object], message: str, copy: Path
) -> None:
    damage(copy)
    with pytest.raises(LorsaError, match=message), ActivationSet(copy) as activations:
        activations.read(0)


def test_the_bf16_type_is_what_h5py_reads_as_numbers(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        space = h5py.h5s.create_simple((2,))
        dataset = h5py.h5d.create(file.id, b"x", file_type("bf16"), space)
        bits = np.array([0x3F80, 0xC049], np.uint16)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=dataset.get_type())
        np.testing.assert_array_equal(file["x"][()], [1.0, -3.140625])


def test_what_lies_in_one_piece_is_mapped(sealed: Path) -> None:
    """Reading copies nothing, outlives the set, and a change reaches neither file nor reader."""
    with ActivationSet(sealed) as activations:
        first, again = activations.read_raw(3), activations.read_raw(3)
    for name in ("mhsa_input", "mhsa_output", "tokens", "mask"):
        assert np.shares_memory(getattr(first, name), getattr(again, name))
    before = again.tokens.copy()
    first.tokens[:] = 0
    with ActivationSet(sealed) as activations:
        np.testing.assert_array_equal(activations.read(3).tokens, before)
