#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: small valid inputs, and hostile ones by kind.

Usage: make_corpus.py [FOLDER]   (default: corpus, beside this script)

Each seed is FOLDER/TARGET/NAME. They are checked in, so that a run needs nothing but the targets;
inputs that once broke something stand beside them as regression-*, which this script leaves alone.
"""

from __future__ import annotations

import json
import pathlib
import struct
import sys
import zlib
from collections.abc import Callable

SHA256 = "0123456789abcdef" * 4


# --- safetensors ---


def safetensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """A file of this header; `length` is what its prefix claims instead of the truth."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype: str, shape: list, begin: int, end: int) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds() -> dict[str, bytes]:
    two = {"a": tensor("F32", [2, 2], 0, 16), "b": tensor("BF16", [3], 16, 22)}
    twice = b'{"a":%s,"a":%s}' % (
        json.dumps(tensor("U8", [1], 0, 1)).encode(),
        json.dumps(tensor("U8", [2], 0, 2)).encode(),
    )
    return {
        "two-tensors": safetensors(two, bytes(22)),
        "metadata": safetensors({"__metadata__": {"format": "pt"}, **two}, bytes(22)),
        "empty": safetensors({}),
        "scalar-and-empty-tensor": safetensors(
            {"s": tensor("I64", [], 0, 8), "e": tensor("F64", [0, 7], 8, 8)}, bytes(8)
        ),
        "padded-header": safetensors(json.dumps(two).encode() + b"   ", bytes(22)),
        "overlap": safetensors(
            {"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6)
        ),
        "gap": safetensors({"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [1], 2, 3)}, bytes(3)),
        "beyond-the-end": safetensors({"a": tensor("F32", [4], 0, 16)}, bytes(8)),
        "bytes-left-over": safetensors({"a": tensor("U8", [1], 0, 1)}, bytes(9)),
        "overflowing-shape": safetensors({"a": tensor("F64", [2**32, 2**32], 0, 0)}),
        "overflowing-offset": safetensors({"a": tensor("U8", [1], 2**64 - 1, 2**64)}),
        "negative-dimension": safetensors({"a": tensor("U8", [-1], 0, 1)}, bytes(1)),
        "fractional-offset": safetensors({"a": tensor("U8", [1], 0, 1.0)}, bytes(1)),
        "rank-17": safetensors({"a": tensor("U8", [1] * 17, 0, 1)}, bytes(1)),
        "unknown-dtype": safetensors({"a": tensor("F128", [1], 0, 16)}, bytes(16)),
        "name-twice": safetensors(twice, bytes(2)),
        "metadata-is-text": safetensors({"__metadata__": "x"}),
        "metadata-value-is-number": safetensors({"__metadata__": {"a": 1}}),
        "huge-header": safetensors({}, length=2**63),
        "deep": safetensors(b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"),
        "not-utf8": safetensors(b'{"\xff":{}}'),
        "short": b"\x02\0\0",
    }


# --- JSON ---

ROPE = {"base": 100000.0, "rotary_dim": 64, "adjacent_pairs": False, "ntk_by_parts": None}
NTK = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_context": 8192}
ATTENTION = {
    "n_heads": 9,
    "n_kv_heads": 3,
    "d_head": 64,
    "attn_scale": 8.0,
    "rope": ROPE,
    "qk_norm": None,
}
MANIFEST = {
    "format": "lorsa-activation-set",
    "format_version": 1,
    "model": {"name": "SmolLM2-135M-Instruct", "revision": "Q4_1"},
    "layer": 12,
    "hook_convention": "transformers.self_attn",
    "attention": ATTENTION,
    "d_model": 576,
    "context": 256,
    "element_type": "bf16",
    "sequences": 3,
    "unmasked_tokens": 700,
    "mean_norm": {"mhsa_input": 9.04, "mhsa_output": 20.4},
    "shards": [
        {"file": "shard-00000.h5", "sequences": 2, "bytes": 302514176, "sha256": SHA256},
        {"file": "shard-00001.h5", "sequences": 1, "bytes": 4096, "sha256": SHA256},
    ],
    "checksums": {"file": "checksums.h5", "bytes": 14544, "sha256": SHA256},
    "attention_weights": {"file": "attention.safetensors", "bytes": 3540000, "sha256": SHA256},
    "producer": "lorsa-harvest 0.1.0",
    "created": "2026-11-30T12:00:00Z",
}


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def changed(document: dict, **members: object) -> bytes:
    return text({**document, **members})


def activation_manifest_seeds() -> dict[str, bytes]:
    shard = MANIFEST["shards"][0]
    qwen = {**ATTENTION, "rope": {**ROPE, "ntk_by_parts": NTK}, "qk_norm": {"epsilon": 1e-6}}
    return {
        "manifest": text(MANIFEST),
        "qk-norm-and-ntk": changed(MANIFEST, attention=qwen),
        "no-attention": changed(MANIFEST, attention=None, attention_weights=None),
        "description": text({"model": MANIFEST["model"], "layer": 12, "attention": ATTENTION}),
        "empty-description": b"{}",
        "sizes-overflow": changed(
            MANIFEST, shards=[{**shard, "bytes": 2**62}, {**MANIFEST["shards"][1], "bytes": 2**62}]
        ),
        "counts-overflow": changed(MANIFEST, sequences=2**63 - 1, context=2**20),
        "huge-shapes": changed(MANIFEST, d_model=65536, context=1048576),
        "path-leads-out": changed(
            MANIFEST, checksums={"file": "../../etc/passwd", "bytes": 1, "sha256": SHA256}
        ),
        "infinite-date": changed(MANIFEST, created="infinite-future"),
        "date-with-zone": changed(MANIFEST, created="2026-11-30T12:00:00.5+05:30"),
        "date-before-year-1": changed(MANIFEST, created="-0001-01-01T00:00:00Z"),
        "number-beyond-double": text(MANIFEST).replace(b"9.04", b"9e999"),
        "key-twice": text(MANIFEST).replace(b'"layer": 12', b'"layer": 12, "layer": 13'),
        "unknown-key": changed(MANIFEST, extra=1),
        "deep": b'{"model":' * 200 + b"1" + b"}" * 200,
        "unclosed": b"[" * 1000,
    }


def json_fields_seeds() -> dict[str, bytes]:
    members = {
        "text": "a",
        "small": -3,
        "any": 2**63 - 1,
        "positive": 0.5,
        "not_negative": 0,
        "boolean": True,
        "inner": {"boolean": False},
    }
    return {
        "all": text(members),
        "null-inner": changed(members, inner=None),
        "inner-is-no-object": changed(members, inner=[1]),
        "integer-beyond-int64": changed(members, any=2**63),
        "integer-as-double": changed(members, any=1e18),
        "integer-beyond-uint64": changed(members, any=2**70),
        "negative-beyond-int64": changed(members, small=-(2**63) - 1),
        "long-text": changed(members, text="x" * 1025),
        "surrogates": b'{"text":"\\ud800\\udc00 \\ud800"}',
        "not-utf8": b'{"text":"\xc3\x28"}',
        "comment": b'{/* */"text":""}',
        "deep": b'{"inner":' + b'{"inner":' * 30 + b"null" + b"}" * 31,
        "array": b"[]",
    }


# --- Text ---


def names_seeds() -> dict[str, bytes]:
    names = {
        "id": "smollm2-l12",
        "job": "jobs/demo",
        "checkpoint": "jobs/demo/checkpoints/step-000001000",
        "at-step": "demo@1000",
        "at-best": "demo@best",
        "at-huge-step": "demo@9223372036854775807",
        "at-negative-step": "demo@-1",
        "parent": "jobs/..",
        "separator": "jobs/a/b",
        "nul": "jobs/a\0b",
        "control": "jobs/\x1b[31m",
        "too-long": "a" * 64,
        "not-ascii": "jobs/ä",
    }
    return {name: seed.encode() for name, seed in names.items()}


def checkpoint_folder_seeds() -> dict[str, bytes]:
    def listing(name: str, **members: object) -> bytes:
        return text({"files": {name: {"bytes": 0, "sha256": SHA256, **members}}})

    return {
        "none": text({"files": {}}),
        "one": listing("config.json"),
        "itself": listing("manifest.json"),
        "path-leads-out": listing("../../../etc/passwd"),
        "absolute-path": listing("/etc/passwd"),
        "negative-size": listing("config.json", bytes=-1),
        "huge-size": listing("config.json", bytes=2**64),
        "unknown-key": listing("config.json", more=1),
        "many": text({"files": {f"f{i}": {"bytes": 0, "sha256": SHA256} for i in range(65)}}),
        "list": text({"files": []}),
        "deep": b'{"files":' * 40 + b"{}" + b"}" * 40,
    }


def log_seeds() -> dict[str, bytes]:
    line = b"2026-11-30T12:00:00Z level=info event=step job=demo attempt=1 step=10 loss=0.5\n"
    return {
        "lines": line * 3,
        "no-end": line + b"cut",
        "one-long-line": b"x" * 4096,
        "umlauts": "Grüße ∑ 😀\n".encode() * 3,
        "not-utf8": b"\xc3\n\xe2\x82\n\xf0\x9f\x98\n\xed\xa0\x80\xc0\x80\xf5\n",
        "nul": b"a\0b\n\x1b[31m\n",
        "blank": b"\n\n \n",
    }


# --- Chunks, as the target reads them with FuzzedDataProvider: numbers from the end ---

DEFLATE, SHUFFLE, FLETCHER32 = range(3)


def fletcher32(data: bytes) -> bytes:
    one = two = 0
    for i in range(0, len(data), 2):
        word = data[i] << 8 | (data[i + 1] if i + 1 < len(data) else 0)
        one = (one + word) % 65535 or 65535
        two = (two + one) % 65535 or 65535
    return struct.pack("<I", two << 16 | one)


def chunk(
    stored: bytes, filters: list[int], decoded: int, element: int = 2, skip: int = 0
) -> bytes:
    numbers = struct.pack("<HBI", decoded - 1, [1, 2, 4, 8].index(element), skip)
    return stored + numbers + bytes(reversed(filters)) + bytes([len(filters)])


def chunk_codec_seeds() -> dict[str, bytes]:
    data = bytes(range(64))
    shuffled = data[0::2] + data[1::2]
    return {
        "plain": chunk(data, [], 64),
        "deflate": chunk(zlib.compress(data), [DEFLATE], 64),
        "shuffle": chunk(shuffled, [SHUFFLE], 64),
        "fletcher32": chunk(data + fletcher32(data), [FLETCHER32], 64),
        "odd-fletcher32": chunk(data[:63] + fletcher32(data[:63]), [FLETCHER32], 63, 1),
        "all": chunk(
            (packed := zlib.compress(shuffled)) + fletcher32(packed),
            [SHUFFLE, DEFLATE, FLETCHER32],
            64,
        ),
        "skipped": chunk(data, [DEFLATE], 64, skip=1),
        "shuffle-with-rest": chunk(data[:61], [SHUFFLE], 61, 8),
        "bomb": chunk(zlib.compress(bytes(1 << 20)), [DEFLATE], 64),
        "too-short": chunk(zlib.compress(b""), [DEFLATE], 64),
        "cut": chunk(zlib.compress(data)[:-3], [DEFLATE], 64),
        "wrong-sum": chunk(data + b"sum!", [FLETCHER32], 64),
        "no-room-for-sum": chunk(b"abc", [FLETCHER32] * 8, 1),
    }


TARGETS: dict[str, Callable[[], dict[str, bytes]]] = {
    "activation_manifest": activation_manifest_seeds,
    "checkpoint_folder": checkpoint_folder_seeds,
    "chunk_codec": chunk_codec_seeds,
    "json_fields": json_fields_seeds,
    "log": log_seeds,
    "names": names_seeds,
    "safetensors": safetensors_seeds,
}


def main() -> None:
    corpus = pathlib.Path(__file__).parent / "corpus"
    if len(sys.argv) > 1:
        corpus = pathlib.Path(sys.argv[1])
    for target, seeds in TARGETS.items():
        folder = corpus / target
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if not old.name.startswith("regression-"):
                old.unlink()
        for name, seed in seeds().items():
            (folder / name).write_bytes(seed)


if __name__ == "__main__":
    main()
