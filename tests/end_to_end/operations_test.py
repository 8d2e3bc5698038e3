"""lorsad as those who run it meet it: configuration, backup, health, full disks, upgrades."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import re
import socket
import sqlite3
import subprocess
import time
import urllib.request

import grpc
import pytest
from disks import fill, small_disk
from health import NOT_SERVING, SERVING, health
from old_catalog import make_version_1
from pages import code_of
from service import PATIENCE, ROOT, Service, run_lorsad, wait_for
from synthetic_set import write_set

SPEC = (
    'activation_set: "set" n_ov_heads: 64 n_qk_heads: 8 top_k: 8 tokens: 100000000 threads: 1 '
    "sequences_per_step: 4"
)


@pytest.mark.parametrize(
    ("device", "seen"), [(None, "[unset]"), ("", "[]"), ("GPU-1f2e", "[GPU-1f2e]")]
)
def test_the_wrapper_of_the_page_passes_the_device_on(
    tmp_path: pathlib.Path, device: str | None, seen: str
) -> None:
    """With an ssh that runs the command here, in an environment of its own."""
    [wrapper] = code_of("operations.md", "sh")
    programs = {
        "wrapper": wrapper,
        "ssh": '#!/bin/sh\nwhile [ "$1" != gpu1 ]; do shift; done\nshift\n'
        'exec env -u CUDA_VISIBLE_DEVICES sh -c "$*"\n',
        "lorsa-worker": '#!/bin/sh\necho "$@" "[${CUDA_VISIBLE_DEVICES-unset}]" "$(cat)"\n',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if device is not None:
        environment["CUDA_VISIBLE_DEVICES"] = device
    said = subprocess.run(
        [tmp_path / "wrapper", "1"],
        check=True,
        capture_output=True,
        env=environment,
        input="bootstrap",
        text=True,
        timeout=PATIENCE,
    ).stdout
    assert said == f"--bootstrap=- --scratch=/scratch/lorsa {seen} bootstrap\n"


def test_the_sample_configuration_holds_and_an_unknown_key_is_named_with_its_line(
    tmp_path: pathlib.Path,
) -> None:
    sample = ROOT / "deploy/lorsad.textproto"
    result = run_lorsad("--config", sample, "--check-config")
    assert (result.returncode, result.stderr) == (0, "")
    wrong = tmp_path / "wrong.textproto"
    wrong.write_text(sample.read_text() + "\nmax_runing_jobs: 2\n")
    line = len(wrong.read_text().splitlines())
    for flags in (["--check-config"], ["--data-dir", tmp_path / "data"]):
        result = run_lorsad("--config", wrong, *flags)
        assert result.returncode == 2
        assert f"{wrong}:{line}:" in result.stderr
        assert "max_runing_jobs" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_configuration_file_is_what_the_server_runs_with(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log/lorsad.log"
    config = tmp_path / "lorsad.textproto"
    config.write_text(
        f'max_running_jobs: 7 disk_reserve_bytes: 1 log {{ level: "debug" file: "{log}" }}\n'
        "limits { receive_message_bytes: 2097152 handshake_seconds: 0.5 }"
    )
    with Service(tmp_path, "--config", str(config)) as service:
        info = service.json("info")[0]
        assert info["max_running_jobs"] == 7
        assert info["max_message_bytes"] == "2097152"
        assert "event=listening" in log.read_text()
        assert "event=listening" not in service.log.read_text()
        # Who connects and says nothing is let go.
        host, port = service.address.split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as silent:
            start = time.monotonic()
            while silent.recv(4096):
                pass
            assert time.monotonic() - start < 20


def test_a_backup_of_a_running_server_is_restored_elsewhere(tmp_path: pathlib.Path) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    with Service(tmp_path) as service:
        service.add_set()
        for i in range(3):
            service.cli("job", "submit", SPEC, "--id", f"job-{i}")
        result = run_lorsad("backup", backups, "--data-dir", service.data)
        assert result.returncode == 0, result.stderr
        backup = pathlib.Path(result.stdout.strip())
        assert backup.parent == backups
        again = run_lorsad("backup", backup, "--data-dir", service.data)
        assert again.returncode == 1
        assert "is not overwritten" in again.stderr
        # Not into a folder that a server runs on, nor over a catalog.
        refused = run_lorsad("restore", backup, "--data-dir", service.data)
        assert refused.returncode == 1
        assert "in use" in refused.stderr
        assert service.terminate() == 0
        refused = run_lorsad("restore", backup, "--data-dir", service.data)
        assert refused.returncode == 1
        assert "is not overwritten" in refused.stderr
    other = tmp_path / "other"
    other.mkdir()
    result = run_lorsad("restore", backup, "--data-dir", other / "data")
    assert result.returncode == 0, result.stderr
    with Service(other) as service:
        assert {job["name"] for job in service.json("job", "list")} == {
            f"jobs/job-{i}" for i in range(3)
        }
        assert service.json("set", "list")[0]["name"] == "activationSets/set"


def test_health_per_service_and_a_reserve_below_which_nothing_starts(
    tmp_path: pathlib.Path,
) -> None:
    with Service(tmp_path, "--disk-reserve-bytes", str(1 << 60)) as service:
        service.add_set()
        service.cli("job", "submit", SPEC, "--id", "waits")
        with grpc.insecure_channel(service.address) as channel:
            wait_for("NOT_SERVING", lambda: health(channel) == NOT_SERVING)
            assert health(channel, "lorsa.v1.JobService") == NOT_SERVING
            for name in ("Checkpoint", "Activation", "Metric", "ServerInfo", "Worker"):
                wait_for(
                    f"{name}Service to be SERVING",
                    lambda name=name: health(channel, f"lorsa.v1.{name}Service") == SERVING,
                )
        conditions = service.json("info")[0]["conditions"]
        assert [condition["reason"] for condition in conditions] == ["DISK_RESERVE"]
        assert "make room" in service.cli("info").stdout
        time.sleep(2)
        assert service.state("waits") == "QUEUED"
        assert service.log.read_text().count("reason=DISK_RESERVE") == 1
        assert service.log.read_text().count("event=launches_held_back") == 1
        assert service.terminate() == 0
    service.flags = ()
    with service:
        service.wait_for_state("waits", "RUNNING")
        with grpc.insecure_channel(service.address) as channel:
            wait_for("SERVING", lambda: health(channel) == SERVING)


def test_metrics_are_served_on_loopback_alone(tmp_path: pathlib.Path) -> None:
    assert run_lorsad("--metrics-listen", "0.0.0.0:0", "--check-config").returncode == 2
    with Service(tmp_path, "--metrics-listen", "127.0.0.1:0") as service:
        service.add_set()
        service.cli("job", "submit", SPEC, "--id", "runs")
        service.wait_for_state("runs", "RUNNING")
        port = wait_for(
            "the port of the metrics",
            lambda: re.search(r"event=metrics_listening port=(\d+)", service.log.read_text()),
        )[1]

        def scrape() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
                return str(page.read().decode())

        text = scrape()
        assert 'lorsa_jobs{state="RUNNING"} 1' in text
        assert 'lorsa_jobs{state="QUEUED"} 0' in text
        assert 'lorsa_condition{reason="DISK_RESERVE"} 0' in text
        for name in ("lorsa_data_free_bytes", "lorsa_catalog_bytes", "process_open_fds"):
            assert float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1]) > 0
        calls = 'grpc_method="CreateJob",grpc_service="lorsa.v1.JobService"} 1'
        assert f'grpc_server_handled_total{{grpc_code="OK",{calls}' in text
        assert f"grpc_server_handling_seconds_count{{{calls}" in text
        wait_for(
            "the job's speed",
            lambda: re.search(
                r'job_progress\{job="jobs/runs",name="tokens_per_second"\} [1-9]', scrape()
            ),
        )


def test_a_full_disk_leaves_reading_and_writing_comes_back(tmp_path: pathlib.Path) -> None:
    with (
        small_disk(tmp_path / "data", 8) as disk,
        Service(tmp_path, "--disk-reserve-bytes", "0") as service,
    ):
        service.add_set()
        service.cli("job", "submit", SPEC, "--id", "before")
        service.wait_for_state("before", "RUNNING")
        service.cli("job", "pause", "before")
        service.wait_for_state("before", "PAUSED")
        ballast = fill(disk)
        failed = ""
        for i in range(200):  # until the room that the catalog's log still had is used up
            result = service.cli("job", "submit", SPEC, "--id", f"during-{i}", ok=False)
            if result.returncode != 0:
                failed = result.stderr
                break
        assert "make room" in failed
        assert service.state("before") == "PAUSED"
        assert service.json("set", "list")
        ballast.unlink()
        service.cli("job", "submit", SPEC, "--id", "after")
        assert service.terminate() == 0


def test_sigterm_with_an_unreadable_catalog_ends_at_once(tmp_path: pathlib.Path) -> None:
    with Service(tmp_path) as service:
        service.add_set()
        service.cli("job", "submit", SPEC, "--id", "runs")
        service.wait_for_state("runs", "RUNNING")
        for name in ("catalog.sqlite", "catalog.sqlite-wal"):
            with (service.data / name).open("r+b") as file:
                file.truncate(0)
        with grpc.insecure_channel(service.address) as channel:
            wait_for("NOT_SERVING", lambda: health(channel) == NOT_SERVING)
        time.sleep(2)
        start = time.monotonic()
        assert service.terminate() == 0
        assert time.monotonic() - start < 30  # its deadline for a drain is 120 s
        said = re.findall("what=catalog_failed error=(.*)", service.log.read_text())
        assert said
        # SQLite may name another error as more of the files is missed.
        assert all(one != next_one for one, next_one in itertools.pairwise(said))


def test_an_older_data_folder_is_upgraded_with_a_copy_and_a_newer_one_left_alone(
    tmp_path: pathlib.Path,
) -> None:
    with Service(tmp_path) as service:
        service.add_set()
        assert service.terminate() == 0
    catalog = service.data / "catalog.sqlite"
    with contextlib.closing(sqlite3.connect(catalog)) as connection:
        current = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute(f"PRAGMA user_version = {current + 1}")
    before = catalog.read_bytes()
    result = run_lorsad("--data-dir", service.data, "--listen", "127.0.0.1:0")
    assert result.returncode == 1
    assert "newer lorsad" in result.stderr
    assert catalog.read_bytes() == before

    for path in service.data.glob("catalog.sqlite*"):
        path.unlink()
    (service.data / "generation").unlink()  # which a lorsad of that time did not write
    make_version_1(service.data)
    with service:
        assert [job["name"] for job in service.json("job", "list")] == ["jobs/old"]
        assert service.json("checkpoint", "list", "old")[0]["step"] == "10"
        assert service.terminate() == 0
    with contextlib.closing(sqlite3.connect(f"{catalog}.version-1")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 1


def test_workers_see_one_device_each(tmp_path: pathlib.Path) -> None:
    worker = tmp_path / "worker"
    seen = tmp_path / "seen"
    worker.write_text(f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES" >> {seen}\nexec sleep 600\n')
    worker.chmod(0o755)
    flags = ["--worker-binary", str(worker), "--max-running-jobs", "2"]
    flags += ["--cuda-device", "3", "--cuda-device", "GPU-b"]
    with Service(tmp_path, *flags) as service:
        service.add_set()
        for i in range(2):
            service.cli("job", "submit", SPEC, "--id", f"job-{i}")
        wait_for("two workers", lambda: seen.exists() and len(seen.read_text().split()) == 2)
        assert sorted(seen.read_text().split()) == ["3", "GPU-b"]


def test_a_damaged_shard_pauses_the_job_until_the_set_is_whole_again(
    tmp_path: pathlib.Path,
) -> None:
    with Service(tmp_path) as service:
        service.add_set()
        service.cli("job", "submit", SPEC, "--id", "runs")
        service.wait_for_state("runs", "RUNNING")
        shard = service.sets / "set/shard-00000.h5"
        whole = shard.read_bytes()
        damaged = bytearray(whole)
        for position in range(len(whole) // 4, len(whole), 512):
            damaged[position] ^= 1
        shard.write_bytes(damaged)
        job = service.wait_for_state("runs", "PAUSED", "FAILED")
        assert (job["state"], job["reason"]) == ("JOB_STATE_PAUSED", "SET_QUARANTINED")
        assert "shard-00000.h5" in job["message"]
        assert "QUARANTINED" in service.cli("set", "list").stdout
        with grpc.insecure_channel(service.address) as channel:
            wait_for("the alarm", lambda: health(channel, "lorsa.v1.StoredData") == NOT_SERVING)
            assert health(channel) == SERVING
        assert "DAMAGED_DATA" in service.cli("info").stdout
        # Resumed too early, it is paused again.
        service.cli("job", "resume", "runs")
        wait_for("another attempt", lambda: service.job("runs")["attempt"] == 2)
        assert service.wait_for_state("runs", "PAUSED", "FAILED")["reason"] == "SET_QUARANTINED"

        shard.write_bytes(whole)
        service.cli("set", "verify", "set")
        service.cli("job", "resume", "runs")
        service.wait_for_state("runs", "RUNNING")
        with grpc.insecure_channel(service.address) as channel:
            wait_for("the all-clear", lambda: health(channel, "lorsa.v1.StoredData") == SERVING)
        assert service.cli("set", "delete", "set", ok=False).returncode == 1


def test_an_upload_is_resumed_after_a_crash_and_trained_on(tmp_path: pathlib.Path) -> None:
    local = tmp_path / "local"
    write_set(local)
    with Service(tmp_path) as service:
        # What a crash in the middle of the first file leaves.
        folder = service.data / "sets/up"
        folder.mkdir(parents=True)
        shard = (local / "shard-00000.h5").read_bytes()
        (folder / "upload-shard-00000.h5").write_bytes(shard[: len(shard) // 2])
        service.cli("set", "upload", "up", local)
        uploaded = service.json("set", "show", "up")[0]
        assert uploaded["uploaded"] is True
        assert (folder / "shard-00000.h5").read_bytes() == shard
        assert not list(folder.glob("upload-*"))
        service.cli("job", "submit", SPEC.replace('"set"', '"up"'), "--id", "runs")
        service.wait_for_state("runs", "RUNNING")
        refused = service.cli("set", "delete", "up", ok=False)
        assert "runs" in refused.stderr
        service.cli("job", "cancel", "runs")
        service.wait_for_state("runs", "CANCELLED")
        service.cli("set", "delete", "up")
        assert not folder.exists()


def test_a_checkpoint_is_exported_imported_and_deleted(tmp_path: pathlib.Path) -> None:
    spec = SPEC.replace("100000000", "2560")
    with Service(tmp_path) as service:
        service.add_set()
        service.cli("job", "submit", spec, "--id", "first", "--watch")
        out = service.sets / "out"
        service.cli("checkpoint", "download", "first@latest", "--out", out)
        service.cli("checkpoint", "import", "second", out)
        imported = service.checkpoints("second")[0]
        original = service.checkpoints("first")[-1]
        assert imported["files"] == original["files"]
        assert imported["step"] == original["step"]
        assert service.state("second") == "SUCCEEDED"
        assert service.job("second")["reason"] == "IMPORTED"
        again = service.cli("checkpoint", "import", "second", out, ok=False)
        assert "already" in again.stderr
        outside = service.cli("checkpoint", "import", "third", "/etc", ok=False)
        assert outside.returncode == 1
        service.cli("checkpoint", "delete", f"second@{imported['step']}")
        assert service.checkpoints("second") == []
        assert not list((service.data / "jobs/second/checkpoints").iterdir())


def test_damage_of_a_checkpoint_is_found_by_the_scrubber(tmp_path: pathlib.Path) -> None:
    spec = SPEC.replace("100000000", "2560")
    config = tmp_path / "lorsad.textproto"
    config.write_text("verify_interval_hours: 0.0001")
    with Service(tmp_path) as service:
        service.add_set()
        service.cli("job", "submit", spec, "--id", "done", "--watch")
        assert service.terminate() == 0
    newest = max((service.data / "jobs/done/checkpoints").iterdir())
    with (newest / "lorsa.safetensors").open("r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    service.flags = ("--config", str(config))
    with service:
        wait_for("the mark", lambda: service.checkpoints("done")[-1]["damage"])
        assert "lorsa.safetensors" in service.checkpoints("done")[-1]["damage"]
        assert service.job("done")["latest_checkpoint"] != service.checkpoints("done")[-1]["name"]
        assert "event=checkpoint_damaged" in service.log.read_text()
        wait_for("the condition", lambda: "DAMAGED_DATA" in service.cli("info").stdout)
