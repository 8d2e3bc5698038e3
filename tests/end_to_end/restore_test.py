"""Catalogs that are put back beside data that is newer than they are."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
from typing import Any

from disks import fill, small_disk
from old_catalog import make_version_1
from service import PATIENCE, Service, run_lorsad, wait_for
from synthetic_set import write_set

SPEC = (
    'activation_set: "set" n_ov_heads: 64 n_qk_heads: 8 top_k: 8 threads: 1 '
    "sequences_per_step: 4 keep_checkpoints: 100 checkpoint_interval_tokens: 512 tokens: 20480"
)
NO_RESERVE = ("--disk-reserve-bytes", "0")


def published(service: Service, job: str) -> dict[str, dict[str, str]]:
    """Name of each listed checkpoint → its files and their sha256."""
    return {
        checkpoint["name"]: {file["name"]: file["sha256"] for file in checkpoint["files"]}
        for checkpoint in service.checkpoints(job)
    }


def assert_downloads(service: Service, job: str, out: pathlib.Path) -> None:
    """Every listed checkpoint of `job` downloads with the sha256 that the list says."""
    for name, files in published(service, job).items():
        target = out / job / name.rsplit("/", 1)[1]
        service.cli("checkpoint", "download", f"{job}@{int(name[-9:])}", "--out", target)
        for file, sha256 in files.items():
            assert hashlib.sha256((target / file).read_bytes()).hexdigest() == sha256


def put_away(service: Service) -> None:
    """Moves the catalog away, as the page on restoring says."""
    for path in service.data.glob("catalog.sqlite*"):
        shutil.move(path, service.folder / f"away-{path.name}")


def back_up(service: Service) -> pathlib.Path:
    result = run_lorsad("backup", service.folder, "--data-dir", service.data)
    assert result.returncode == 0, result.stderr
    return pathlib.Path(result.stdout.strip())


def wait_for_checkpoints(service: Service, job: str, count: int) -> Any:
    return wait_for(f"{count} checkpoints", lambda: len(service.checkpoints(job)) >= count)


def test_a_restore_in_place_loses_nothing_that_was_published(tmp_path: pathlib.Path) -> None:
    local = tmp_path / "local"
    write_set(local)
    with Service(tmp_path) as service:
        service.add_set()
        service.cli("job", "submit", SPEC, "--id", "j")
        wait_for_checkpoints(service, "j", 2)
        backup = back_up(service)
        service.wait_for_state("j", "SUCCEEDED")
        # What the backup knows nothing of: a job, an imported checkpoint, an uploaded set.
        service.cli("job", "submit", SPEC, "--id", "later", "--watch")
        service.cli("checkpoint", "download", "j@latest", "--out", service.sets / "out")
        service.cli("checkpoint", "import", "imported", service.sets / "out")
        service.cli("set", "upload", "uploaded", local)
        jobs = ("j", "later", "imported")
        before = {job: published(service, job) for job in jobs}
        assert len(before["j"]) > 2
        assert service.terminate() == 0
        put_away(service)
        said = run_lorsad("restore", "--dry-run", backup, "--data-dir", service.data).stdout
        assert "jobs/later" in said
        assert "jobs/j/checkpoints/step-" in said
        assert not (service.data / "catalog.sqlite").exists()
        restored = run_lorsad("restore", backup, "--data-dir", service.data)
        assert restored.returncode == 0, restored.stderr
        assert restored.stdout.startswith(said)
        service.start()
        assert {job: published(service, job) for job in jobs} == before
        for job in jobs:
            assert service.state(job) == "SUCCEEDED"
            assert_downloads(service, job, tmp_path / "downloads")
        assert service.json("set", "show", "uploaded")[0]["uploaded"] is True
        assert "event=catalog_older_than_data" in service.log.read_text()
        assert not (service.data / "lost+found").exists()


def test_a_restore_on_a_full_disk_fails_the_start_and_loses_nothing(
    tmp_path: pathlib.Path,
) -> None:
    """It started, and the older catalog decided which files went."""
    with small_disk(tmp_path / "data", 64), Service(tmp_path, *NO_RESERVE) as service:
        service.add_set()
        service.cli("job", "submit", SPEC, "--id", "j")
        wait_for_checkpoints(service, "j", 2)
        backup = back_up(service)
        service.wait_for_state("j", "SUCCEEDED")
        before = published(service, "j")
        assert service.terminate() == 0
        put_away(service)
        restored = run_lorsad("restore", backup, "--data-dir", service.data)
        assert restored.returncode == 0, restored.stderr
        # It would give the catalog room.
        (service.data / "spare-room").unlink(missing_ok=True)
        ballast = fill(service.data)
        files = service.job_files()
        service.launch()
        assert service.process is not None
        assert service.process.wait(PATIENCE) == 1
        assert "make room if the disk is full" in service.log.read_text()
        assert service.job_files() == files
        ballast.unlink()
        service.start()
        assert published(service, "j") == before


def test_the_copy_that_an_upgrade_left_can_be_put_back(tmp_path: pathlib.Path) -> None:
    service = Service(tmp_path)
    make_version_1(service.data)
    with service:
        copy = service.data / "catalog.sqlite.version-1"
        assert copy.exists()
        service.add_set()
        service.cli("job", "submit", SPEC, "--id", "since", "--watch")
        before = published(service, "since")
        assert len(before) > 2
        assert service.terminate() == 0
        saved = shutil.copy(copy, tmp_path / "copy.sqlite")
        put_away(service)

        # For the lorsad of before, which would delete what it does not know.
        old = tmp_path / "old"
        shutil.copytree(service.data, old)
        result = run_lorsad("restore", "--set-aside", saved, "--data-dir", old)
        assert result.returncode == 0, result.stderr
        assert [path.name for path in (old / "jobs").iterdir()] == ["old"]
        [aside] = (old / "lost+found").glob("*/jobs/since/checkpoints")
        assert len(list(aside.iterdir())) == len(before)

        # For a lorsad that knows what to do with it, put in place without its help.
        shutil.copy(saved, service.data / "catalog.sqlite")
        service.start()
        assert published(service, "since") == before
        assert service.state("since") == "SUCCEEDED"
        assert_downloads(service, "since", tmp_path / "downloads")
