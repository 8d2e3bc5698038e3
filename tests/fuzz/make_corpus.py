#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: small valid inputs, and hostile ones by kind.

Usage: make_corpus.py [FOLDER]   (default: corpus, beside this script)

Each seed is FOLDER/TARGET/NAME. They are checked in, so that a run needs nothing but the targets;
inputs that once broke something stand beside them as regression-*, which this script leaves alone.
The same versions of h5py and HDF5 give the same bytes.
"""

from __future__ import annotations

import json
import pathlib
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable

import h5py
import numpy as np

SEQUENCES, CONTEXT, D_MODEL = 2, 3, 4
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

SPEC = 'activation_set: "demo" expansion_factor: 8 top_k: 64'


def training_spec_seeds() -> dict[str, bytes]:
    rope = "rope { base: 1e4 rotary_dim: 64 ntk_by_parts { factor: 8 low_freq_factor: 1 "
    rope += "high_freq_factor: 4 original_context: 8192 } }"
    seeds = {
        "short": SPEC,
        "long": SPEC + f" n_qk_heads: 36 d_qk: 64 selection: SELECTION_SIGNED {rope} "
        "qk_norm { epsilon: 1e-6 } tokens: 1000000 seed: 7 precision: PRECISION_FP32 ranks: 2 "
        "learning_rate: 3e-3 warmup_fraction: 0.05 aux_coefficient: 0.03 refit_tokens: 0",
        "json": '{"activationSet": "demo", "nOvHeads": 4608, "topK": 64, "attnScale": 8}',
        "numbers-at-their-ends": SPEC + " tokens: 18446744073709551615 ranks: 4294967295",
        "not-finite": SPEC + " learning_rate: nan attn_scale: inf adam_beta1: -inf",
        "unknown-enum": SPEC + " selection: 99",
        "unknown-field": SPEC + " nonsense: 1",
        "field-twice": SPEC + " top_k: 32",
        "deep": "rope { ntk_by_parts { " * 50,
        "any": "[type.googleapis.com/lorsa.v1.TrainingSpec] { top_k: 1 }",
        "deep-json": '{"rope":' * 120 + "1" + "}" * 120,
        "json-any": '{"@type": "type.googleapis.com/lorsa.v1.TrainingSpec"}',
        "escapes": r'activation_set: "\377\x00\ud800" ' + "# comment",
        "heads-of-nothing": 'activation_set: "demo" n_ov_heads: 0 n_qk_heads: 0 d_qk: 0 top_k: 0',
        "many-heads": 'activation_set: "demo" n_ov_heads: 4294967295 n_qk_heads: 4294967295',
    }
    return {name: seed.encode() for name, seed in seeds.items()}


def server_config_seeds() -> dict[str, bytes]:
    sample = pathlib.Path(__file__).parents[2] / "deploy" / "lorsad.textproto"
    settings = [line for line in sample.read_text().splitlines() if line and line[0] != "#"]
    return {
        "sample": "\n".join(settings).encode(),
        "empty": b"",
        "address": b"127.0.0.1:7070",
        "address-v6": b"[::1]:0",
        "address-port-too-large": b"host:65536",
        "unknown-key": b"datadir: 'x'",
        "nested-unknown-key": b"limits { streams: 1 }",
        "numbers-at-their-ends": b"max_running_jobs: 2147483647 "
        b"disk_reserve_bytes: 9223372036854775807 verify_interval_hours: 2147483647",
        "negative": b"cpu_slots: -1 job_memory_bytes: -1 log { old_files: -1 max_file_bytes: -1 }",
        "not-finite": b"limits { handshake_seconds: nan }",
        "folders": b"activation_roots: '/tmp' activation_roots: '/no/such' worker_binary: '/tmp'",
        "deep": b"limits { " * 60,
    }


def sweep_seeds() -> dict[str, bytes]:
    def sweep(*parameters: str, spec: str = SPEC) -> bytes:
        lists = "".join(f"parameters {{ {parameter} }} " for parameter in parameters)
        return f"spec {{ {spec} }} {lists}".encode()

    rates = 'field: "learning_rate" values: "1e-3" values: "3e-3"'
    heads = 'field: "n_qk_heads" values: "9" values: "36"'
    many = 'field: "seed" ' + " ".join(f'values: "{i}"' for i in range(300))
    return {
        "one": sweep(rates),
        "two": sweep(rates, heads),
        "enum-and-bool": sweep(
            'field: "selection" values: "SELECTION_RELU" values: "SELECTION_SIGNED"',
            'field: "decoder_bias" values: "true" values: "false"',
        ),
        "text": sweep('field: "activation_set" values: "a" values: "b\\"c"', spec=""),
        "set-in-spec": sweep('field: "top_k" values: "1"'),
        "field-twice": sweep(rates, rates),
        "same-value": sweep('field: "learning_rate" values: "1e-3" values: "0.001"'),
        "no-field": sweep('field: "nonsense" values: "1"'),
        "message-field": sweep('field: "rope" values: "{}"'),
        "two-values-in-one": sweep('field: "seed" values: "1 seed: 2"'),
        "not-a-value": sweep('field: "seed" values: "-1" values: "x" values: ""'),
        "too-many": sweep(many),
        "none": sweep(),
    }


WORKER_OUTCOME = "kind: KIND_FAILED reason: 'OUT_OF_MEMORY' message: 'needs 3 GB'"


def worker_files_seeds() -> dict[str, bytes]:
    seeds = {
        "outcome": WORKER_OUTCOME,
        "outcome-unknown-kind": "kind: 99",
        "outcome-not-utf8": r"message: '\377\xc3\u0000'",
        "outcome-torn": WORKER_OUTCOME[:-9],
        "outcome-twice": WORKER_OUTCOME + " kind: KIND_PAUSED",
        "bootstrap": "job: 'jobs/demo' attempt: 1 token: 'secret' endpoint_file: '/d/endpoint' "
        "staging_folder: '/d/staging' outcome_file: '/d/outcome.textproto'",
        "extension": "[lorsa.v1.unknown]: 1",
        "deep": "a { " * 100,
    }
    return {name: seed.encode() for name, seed in seeds.items()}


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


CONFIG = {
    "format": "lorsa-checkpoint",
    "format_version": 1,
    "d_model": 576,
    "n_ov_heads": 4608,
    "n_qk_heads": 36,
    "d_qk": 64,
    "top_k": 64,
    "selection": "relu",
    "select_by_decoder_norm": True,
    "decoder_bias": True,
    "attn_scale": 8.0,
    "rope": ROPE,
    "qk_norm": None,
    "context": 256,
    "input_scale": 2.65,
    "output_scale": 1.2,
    "hook_convention": "transformers.self_attn",
    "model": MANIFEST["model"],
    "layer": 12,
}
COUNTS = {
    "format": "lorsa-training-state",
    "format_version": 1,
    "step": 1000,
    "sequences_consumed": 8000,
    "seed": 2**64 - 1,
    "precision": "bf16",
    "skipped_batches": 1,
    "evaluated_step": 900,
    "fvu": 0.19,
    "best_fvu": 0.18,
    "refitted": False,
    "rollbacks": [{"failed_step": 120, "to_step": 100}],
}
CHECKPOINT_MANIFEST = {
    "format": "lorsa-checkpoint-manifest",
    "format_version": 1,
    "created": "2026-11-30T12:00:00Z",
    "environment": {
        "build": "0.1.0, compiler 12.2.0",
        "instruction_set": "AVX512",
        "threads": 2,
        "ranks": 1,
        "torch": "2.13.0",
    },
    "files": {
        name: {"bytes": 4096, "sha256": SHA256}
        for name in ("lorsa.safetensors", "config.json", "state.safetensors", "state.json")
    },
}
ROLLBACKS = {"format": "lorsa-rollbacks", "format_version": 1, "rollbacks": COUNTS["rollbacks"]}


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


# --- Chunks and orders, as the targets read them with FuzzedDataProvider: numbers from the end ---

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


def sequence_order_seeds() -> dict[str, bytes]:
    def order(sequences: int, cursor: int, seed: int) -> bytes:
        return (
            struct.pack("<Q", seed)
            + struct.pack("<Q", cursor)
            + (sequences - 1).to_bytes(6, "little")
        )

    return {
        "few": order(10, 3, 0),
        "one": order(1, 5, 1),
        "next-epoch": order(1000, 7009, 42),
        "many": order(100000 << 24, 1 << 62, 2**64 - 1),
        "power-of-two": order(1 << 20, (1 << 20) - 1, 9),
    }


# --- HDF5 ---


def write_shard(file: h5py.File, **options: object) -> None:
    """The four datasets of a valid shard, with finite fp16 activations."""
    values = np.arange(SEQUENCES * CONTEXT * D_MODEL, dtype=np.float16)
    for name in ("mhsa_input", "mhsa_output"):
        shaped = values.reshape(SEQUENCES, CONTEXT, D_MODEL)
        file.create_dataset(name, data=shaped, **options)
    positions = np.arange(SEQUENCES * CONTEXT, dtype=np.int32).reshape(SEQUENCES, CONTEXT)
    flat = {name: value for name, value in options.items() if name != "chunks"}
    if "chunks" in options:
        flat["chunks"] = options["chunks"] and tuple(options["chunks"])[:2]
    file.create_dataset("tokens", data=positions, **flat)
    file.create_dataset("mask", data=(positions % 3 != 0).astype(np.uint8), **flat)


def replace(file: h5py.File, name: str, **dataset: object) -> None:
    del file[name]
    file.create_dataset(name, **dataset)


def external_link(file: h5py.File) -> None:
    del file["mask"]
    file["mask"] = h5py.ExternalLink("/etc/passwd", "/mask")


def soft_link(file: h5py.File) -> None:
    file["beside"] = h5py.SoftLink("/mask")


def cyclic_groups(file: h5py.File) -> None:
    group = file.create_group("g")
    group["self"] = group
    group["root"] = file["/"]


def external_storage(file: h5py.File) -> None:
    shape = (SEQUENCES, CONTEXT)
    replace(file, "mask", shape=shape, dtype="u1", external=[("/etc/hostname", 0, 6)])


def virtual_storage(file: h5py.File) -> None:
    del file["mask"]
    space = h5py.h5s.create_simple((SEQUENCES, CONTEXT))
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    properties.set_virtual(space, b"/etc/passwd", b"mask", space)
    h5py.h5d.create(file.id, b"mask", h5py.h5t.STD_U8LE, space, properties)


def giant_dimensions(file: h5py.File) -> None:
    replace(file, "mhsa_input", shape=(2**40, 4, 4), dtype="f2", chunks=(2**20, 4, 4))


def giant_chunks(file: h5py.File) -> None:
    replace(file, "mhsa_input", shape=(2**40, 4, 4), dtype="f2", chunks=(2**26, 4, 4))


def chunks_beyond_shape(file: h5py.File) -> None:
    data = np.zeros((SEQUENCES, CONTEXT), np.uint8)
    replace(file, "mask", data=data, maxshape=(None, None), chunks=(64, 64), compression=9)


def other_filter(file: h5py.File) -> None:
    data = np.zeros((SEQUENCES, CONTEXT), np.uint8)
    replace(file, "mask", data=data, chunks=(1, CONTEXT), scaleoffset=0)


def plugin_filter(file: h5py.File) -> None:
    data = np.zeros((SEQUENCES, CONTEXT), np.uint8)
    replace(file, "mask", data=data, chunks=(1, CONTEXT), compression="lzf")


def never_written(file: h5py.File) -> None:
    replace(file, "mask", shape=(SEQUENCES, CONTEXT), dtype="u1", chunks=(1, CONTEXT))


def other_types(file: h5py.File) -> None:
    replace(file, "tokens", data=np.zeros((SEQUENCES, CONTEXT), ">i8"))


def compound_type(file: h5py.File) -> None:
    replace(file, "mask", shape=(SEQUENCES, CONTEXT), dtype=[("a", "u1"), ("b", "f4")])


def variable_text(file: h5py.File) -> None:
    file.attrs["lorsa_set"] = "{}"


def fixed_text(file: h5py.File) -> None:
    file.attrs["lorsa_set"] = np.bytes_(text({"layer": 12}))


def group_as_dataset(file: h5py.File) -> None:
    del file["tokens"]
    file.create_group("tokens")


def not_finite(file: h5py.File) -> None:
    file["mhsa_output"][1, 2, 3] = np.inf


def left_padding(file: h5py.File) -> None:
    file["mask"][...] = [[0, 0, 1], [0, 0, 0]]


def nothing(file: h5py.File) -> None:
    pass


SHARDS: dict[str, tuple[dict, Callable[[h5py.File], None]]] = {
    "contiguous": ({}, nothing),
    "chunked": ({"chunks": (1, CONTEXT, D_MODEL)}, nothing),
    "odd-chunks": ({"chunks": (2, 2, 3)}, nothing),
    "deflate": ({"chunks": (1, 2, 3), "compression": 9}, nothing),
    "all-filters": (
        {"chunks": (1, 2, 3), "compression": 9, "shuffle": True, "fletcher32": True},
        nothing,
    ),
    "description": ({}, fixed_text),
    "external-link": ({}, external_link),
    "soft-link": ({}, soft_link),
    "cyclic-groups": ({}, cyclic_groups),
    "external-storage": ({}, external_storage),
    "virtual-storage": ({}, virtual_storage),
    "giant-dimensions": ({}, giant_dimensions),
    "giant-chunks": ({}, giant_chunks),
    "chunks-beyond-shape": ({}, chunks_beyond_shape),
    "other-filter": ({}, other_filter),
    "plugin-filter": ({}, plugin_filter),
    "never-written": ({}, never_written),
    "other-types": ({}, other_types),
    "compound-type": ({}, compound_type),
    "variable-text": ({}, variable_text),
    "group-as-dataset": ({}, group_as_dataset),
    "not-finite": ({}, not_finite),
    "left-padding": ({}, left_padding),
}


def shard_seeds() -> dict[str, bytes]:
    seeds = {"empty": b"", "signature": b"\x89HDF\r\n\x1a\n"}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "shard.h5"

        def shard(version: str, options: dict, change: Callable[[h5py.File], None]) -> bytes:
            with h5py.File(path, "w", libver=version) as file:
                write_shard(file, **options)
                change(file)
            return path.read_bytes()

        for name, (options, change) in SHARDS.items():
            seeds[name] = shard("earliest", options, change)
        for name in ("contiguous", "chunked", "all-filters", "chunks-beyond-shape"):
            seeds[f"{name}-latest"] = shard("latest", *SHARDS[name])
    seeds["user-block"] = bytes(512) + seeds["contiguous"]
    seeds["truncated"] = seeds["all-filters"][:-100]
    return seeds


TARGETS: dict[str, Callable[[], dict[str, bytes]]] = {
    "activation_manifest": activation_manifest_seeds,
    "checkpoint_folder": checkpoint_folder_seeds,
    "chunk_codec": chunk_codec_seeds,
    "json_fields": json_fields_seeds,
    "log": log_seeds,
    "names": names_seeds,
    "safetensors": safetensors_seeds,
    "sequence_order": sequence_order_seeds,
    "server_config": server_config_seeds,
    "shard": shard_seeds,
    "sweep": sweep_seeds,
    "training_spec": training_spec_seeds,
    "worker_files": worker_files_seeds,
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
