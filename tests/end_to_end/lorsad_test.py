"""lorsad as a process: how it starts, answers, refuses and stops."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
from types import SimpleNamespace

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from health import NOT_SERVING, SERVING, health, wait_until_serving
from service import BIN, PATIENCE, Service, run_lorsad, wait_for

# Reflection by hand: its Python package would be needed for this alone.
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
LIST_SERVICES = b"\x3a\x00"  # ServerReflectionRequest.list_services


def reason_of(error: grpc.RpcError) -> str:
    """The reason in the error's google.rpc.ErrorInfo."""
    trailers = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "lorsa"
    return str(info.reason)


def test_tells_who_it_is(lorsad: Service, api: SimpleNamespace, stubs: SimpleNamespace) -> None:
    info = stubs.server_info.GetServerInfo(api.server_info_service_pb2.GetServerInfoRequest())
    assert f"lorsad {info.version}" == run_lorsad("--version").stdout.strip()
    assert set(info.activation_roots) == {str(lorsad.sets), str(lorsad.data / "sets")}
    assert info.max_running_jobs == 1
    assert info.data_free_bytes > 0
    assert info.memory_bytes > 0
    assert (info.running_jobs, info.queued_jobs) == (0, 0)


def test_serves_health_and_reflection(lorsad: Service, channel: grpc.Channel) -> None:
    wait_until_serving(lorsad)
    (services,) = channel.stream_stream(REFLECTION)(iter([LIST_SERVICES]), timeout=PATIENCE)
    for service in ("Activation", "Checkpoint", "Job", "Metric", "ServerInfo", "Worker"):
        assert f"lorsa.v1.{service}Service".encode() in services


def test_errors_carry_a_reason(
    tmp_path: pathlib.Path, api: SimpleNamespace, stubs: SimpleNamespace
) -> None:
    messages = api.activation_service_pb2
    outside = messages.RegisterActivationSetRequest(activation_set_id="set", path=str(tmp_path))
    with pytest.raises(grpc.RpcError) as error:
        list(stubs.activation.RegisterActivationSet(outside))
    assert error.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert reason_of(error.value) == "OUTSIDE_ACTIVATION_ROOTS"
    with pytest.raises(grpc.RpcError) as error:
        next(stubs.worker.Session(iter([])))
    assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert reason_of(error.value) == "WORKER_TOKEN_MISSING"


def test_a_data_folder_has_one_server(lorsad: Service, channel: grpc.Channel) -> None:
    wait_until_serving(lorsad)
    second = run_lorsad("--data-dir", lorsad.data, "--listen", "127.0.0.1:0")
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert "in use" in second.stderr
    assert health(channel) == SERVING


def test_a_taken_port_is_refused(lorsad: Service, tmp_path: pathlib.Path) -> None:
    second = run_lorsad("--data-dir", tmp_path / "other", "--listen", lorsad.address)
    assert second.returncode == 1
    assert "cannot listen" in second.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "flags",
    [("--listen", "nowhere"), ("--max-running-jobs", "0"), ("--activation-root", "/no/such")],
)
def test_refuses_flags_that_make_no_sense(tmp_path: pathlib.Path, flags: tuple[str, str]) -> None:
    result = run_lorsad("--data-dir", tmp_path / "data", *flags)
    assert result.returncode != 0
    assert flags[0] in result.stderr
    assert not (tmp_path / "data").exists()


def test_what_it_needs_is_looked_for_before_the_catalog(tmp_path: pathlib.Path) -> None:
    """A start that failed had upgraded the catalog, which the old lorsad then refused."""
    alone = shutil.copy(BIN / "lorsad", tmp_path)
    data = tmp_path / "data"
    result = subprocess.run(
        [alone, "--data-dir", data, "--listen", "127.0.0.1:0"],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert result.returncode == 1
    assert "lorsa-inspect" in result.stderr
    assert not (data / "catalog.sqlite").exists()


def test_sigterm_ends_it_cleanly_and_it_starts_again(lorsad: Service) -> None:
    assert lorsad.terminate() == 0
    assert not (lorsad.data / "endpoint").exists()
    lorsad.start()
    wait_until_serving(lorsad)


def test_open_streams_do_not_hold_up_the_end(
    lorsad: Service, api: SimpleNamespace, stubs: SimpleNamespace
) -> None:
    lorsad.add_set()
    messages = api.activation_service_pb2
    request = messages.StreamSequencesRequest(
        name="activationSets/set", subset=messages.SEQUENCE_SUBSET_TRAINING
    )
    stream = stubs.activation.StreamSequences(request)  # without end, and hardly read
    assert len(next(stream).indices) > 0
    assert lorsad.terminate() == 0
    with pytest.raises(grpc.RpcError):
        list(stream)


def test_a_drain_is_visible_and_a_second_signal_cuts_it_short(
    tmp_path: pathlib.Path, api: SimpleNamespace
) -> None:
    """A worker that says nothing holds up the drain: health is NOT_SERVING until it is over."""
    worker, pid = tmp_path / "silent_worker", tmp_path / "worker_pid"
    worker.write_text(f"#!/bin/sh\necho $$ > {pid}.tmp\nmv {pid}.tmp {pid}\nexec sleep 600\n")
    worker.chmod(0o755)
    try:
        with Service(tmp_path, "--worker-binary", str(worker)) as service:
            service.add_set()
            with grpc.insecure_channel(service.address) as channel:
                jobs = api.job_service_pb2_grpc.JobServiceStub(channel)
                spec = api.training_spec_pb2.TrainingSpec(
                    activation_set="set", n_ov_heads=8, top_k=4
                )
                create = api.job_service_pb2.CreateJobRequest(job_id="silent")
                create.spec.training.CopyFrom(spec)
                jobs.CreateJob(create, timeout=PATIENCE)
                wait_for("the worker", pid.exists)
                assert service.process is not None
                service.process.terminate()
                wait_for("lorsad to be NOT_SERVING", lambda: health(channel) == NOT_SERVING)
            service.process.terminate()
            assert service.process.wait(PATIENCE) == 1
    finally:
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGKILL)


def test_warns_when_others_can_reach_it(tmp_path: pathlib.Path) -> None:
    command = [BIN / "lorsad", "--data-dir", tmp_path, "--listen", "0.0.0.0:0"]
    log = tmp_path / "log"
    with log.open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        try:
            wait_for("lorsad to listen", (tmp_path / "endpoint").exists)
            assert (tmp_path / "endpoint").read_text().startswith("127.0.0.1:")
            assert "there is no authentication yet" in log.read_text()
        finally:
            process.kill()
