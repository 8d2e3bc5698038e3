"""Requests that are small to send and large to keep."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace

import grpc
import pytest
from service import Service, wait_for

MAX_GROWTH_KIB = 64 << 10
JOBS = 150


def unknown_field(size: int) -> bytes:
    """Field 9999 of any message, `size` bytes of it."""
    length = b""
    rest = size
    while rest >= 0x80:
        length += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return b"\xfa\xf0\x04" + length + bytes([rest]) + bytes(size)


def resident_kib(lorsad: Service) -> int:
    assert lorsad.process is not None
    status = pathlib.Path(f"/proc/{lorsad.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def catalog_bytes(lorsad: Service) -> int:
    return sum(path.stat().st_size for path in lorsad.data.glob("catalog.sqlite*"))


@pytest.mark.parametrize(
    "place", ["spec", "rope", "ntk_by_parts", "qk_norm", "policy", "ttl", "parameter"]
)
def test_a_sweep_with_a_large_unknown_field_is_refused(
    lorsad: Service, api: SimpleNamespace, stubs: SimpleNamespace, place: str
) -> None:
    lorsad.add_set()
    # But for the unknown field, the server takes the request.
    request = api.job_service_pb2.CreateSweepRequest(sweep_id="sweep")
    spec, rope = request.spec, request.spec.rope
    spec.activation_set = "set"
    rope.base, rope.rotary_dim = 10000, 16
    ntk = rope.ntk_by_parts
    ntk.factor, ntk.low_freq_factor, ntk.high_freq_factor, ntk.original_context = 8, 1, 4, 8192
    request.policy.ttl.seconds = 60
    request.parameters.add(field="seed", values=[str(i) for i in range(JOBS)])
    target = {
        "spec": spec,
        "rope": rope,
        "ntk_by_parts": ntk,
        "qk_norm": spec.qk_norm,
        "policy": request.policy,
        "ttl": request.policy.ttl,
        "parameter": request.parameters[0],
    }[place]
    target.MergeFromString(unknown_field(3 << 20))
    before = resident_kib(lorsad), catalog_bytes(lorsad)
    with pytest.raises(grpc.RpcError) as refusal:
        stubs.job.CreateSweep(request)
    assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "does not know" in refusal.value.details()
    assert resident_kib(lorsad) - before[0] < MAX_GROWTH_KIB
    assert catalog_bytes(lorsad) == before[1]


SMALL = (
    "activation_set: 'set' n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: 12800 threads: 1 "
    "sequences_per_step: 4"
)


def test_jobs_that_a_smaller_server_cannot_hold_block_no_other(
    tmp_path: pathlib.Path, api: SimpleNamespace
) -> None:
    request = api.job_service_pb2.CreateSweepRequest(sweep_id="large")
    request.spec.activation_set = "set"
    request.spec.threads = 2
    request.policy.priority = 1
    request.parameters.add(field="seed", values=[str(i) for i in range(JOBS)])
    with Service(tmp_path, "--cpu-slots", "2") as lorsad:
        lorsad.add_set()
        with grpc.insecure_channel(lorsad.address) as channel:
            api.job_service_pb2_grpc.JobServiceStub(channel).CreateSweep(request)
        lorsad.terminate()
        lorsad.flags = ("--cpu-slots", "1")
        lorsad.start()
        lorsad.cli("job", "submit", "--id", "small", SMALL)
        wait_for("the small job to start", lambda: int(lorsad.job("small").get("attempt", 0)) > 0)
        assert lorsad.job(f"large-{JOBS - 1:03}")["waiting_for"] == "LARGER_THAN_MACHINE"
