"""Disks that fill up or turn read-only under a server with work to do."""

from __future__ import annotations

import contextlib
import pathlib
import random
import time
from collections.abc import Iterator

import pytest
from campaign import Campaign
from disks import fill, fragile_disk, remount, repair, small_disk, turn_read_only
from finished_job import SPEC, finish_job
from lorsa.client import Client
from lorsa.client.errors import RpcError
from reading import list_jobs, query_metrics
from service import Service, wait_for

# So many jobs are refused for certain: the catalog's log may have room for the first.
MANY = 200


def first_refusal(client: Client, name: str) -> RpcError:
    """What a server answers that cannot write."""
    for i in range(MANY):
        try:
            client.submit(SPEC, f"{name}-{i}")
        except RpcError as error:
            return error
    raise AssertionError(f"{MANY} jobs were accepted on a disk that takes nothing")


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    """With the finished job `done`; its data folder lies on the fragile disk."""
    with (
        fragile_disk(tmp_path / "data", 64),
        Service(tmp_path, "--disk-reserve-bytes", "0") as service,
    ):
        service.add_set()
        finish_job(service)
        yield service


def check_reading(client: Client, out: pathlib.Path) -> None:
    job = client.job("done")
    assert job.state == "SUCCEEDED"
    assert len(query_metrics(client, job.name)) > 50
    assert len(list(job.watch())) > 3
    job.checkpoint("best").download(out)
    assert client.sets.get("set").sequences == 300


@pytest.mark.long
def test_a_full_disk_under_load_loses_nothing(
    tmp_path: pathlib.Path, pytestconfig: pytest.Config
) -> None:
    seed = pytestconfig.getoption("--seed")
    with small_disk(tmp_path / "data", 48) as disk:
        campaign = Campaign(tmp_path, seed)
        try:
            for round_number in range(2):
                load = campaign.load(f"full/{round_number}", resources_may_run_out=True)
                with Client(campaign.service.listen) as client:
                    wait_for("a job", lambda client=client: list_jobs(client))
                time.sleep(3)
                ballast = fill(disk)
                campaign.oracle.disk_was_full = True
                time.sleep(3)
                with Client(campaign.service.listen) as client:
                    jobs = {job.name for job in list_jobs(client)}
                    assert jobs
                if round_number == 1:  # also a server that crashes meanwhile
                    campaign.service.kill()
                ballast.unlink()
                if round_number == 1:
                    campaign.service.start()
                time.sleep(1)
                problems = load.stop()
                with Client(campaign.service.listen) as client:
                    problems += campaign.oracle.check(client)
                    assert jobs <= {job.name for job in list_jobs(client)}
                campaign.expect_none(problems, f"a full disk, round {round_number}")
            campaign.finish()
        finally:
            campaign.close()


def test_a_disk_that_turned_read_only_can_be_read(service: Service, tmp_path: pathlib.Path) -> None:
    with Client(service.listen) as client:
        turn_read_only(service.data)
        refusal = first_refusal(client, "during")
        assert refusal.code in ("RESOURCE_EXHAUSTED", "UNAVAILABLE"), refusal
        assert "disk" in str(refusal) or "read" in str(refusal), refusal
        check_reading(client, tmp_path / "during")
        assert all("during" not in job.name for job in list_jobs(client))
        start = time.monotonic()
        assert service.terminate() == 0
        assert time.monotonic() - start < 30
        repair(service.data)
        service.start()
        check_reading(client, tmp_path / "after")
        assert client.submit(SPEC, "after").wait(120).state == "SUCCEEDED"


@pytest.mark.long
@pytest.mark.parametrize("loss", range(3))
def test_what_was_acknowledged_survives_a_loss_of_power(
    tmp_path: pathlib.Path, pytestconfig: pytest.Config, loss: int
) -> None:
    """What was not fsynced is gone: the disk takes nothing more, then all processes end."""
    seed = pytestconfig.getoption("--seed")
    with fragile_disk(tmp_path / "data", 256) as disk:
        campaign = Campaign(tmp_path, seed)
        service = campaign.service
        try:
            load = campaign.load(f"power/{loss}", resources_may_run_out=True)
            time.sleep(random.Random(f"{seed}/{loss}").uniform(1, 5))
            turn_read_only(disk)
            time.sleep(1)
            service.kill()
            service.kill_workers()
            wait_for("its workers to end", lambda: not service.worker_pids())
            repair(disk)
            campaign.oracle.lost_power()
            service.start()
            problems = load.stop()
            with Client(service.listen) as client:
                problems += campaign.oracle.check(client)
            campaign.expect_none(problems, f"loss of power {loss}")
            campaign.finish()
        finally:
            campaign.close()


def conditions(client: Client) -> set[str]:
    return {condition.reason for condition in client.server_info().conditions}


def end(service: Service, crashed: bool) -> None:
    """Leaves nobody who has a file of it open for writing."""
    if crashed:
        service.kill()
    else:
        assert service.terminate() == 0
    wait_for("its workers to end", lambda: not service.worker_pids())


def launch(service: Service, client: Client) -> None:
    """Starts it where no endpoint file can be written."""

    def answers() -> bool:
        with contextlib.suppress(RpcError):
            return "RECOVERING" not in conditions(client)
        return False

    service.launch()
    wait_for("an answer", answers)


def check_start_without_room(service: Service, client: Client, out: pathlib.Path) -> None:
    before = service.job_files()
    launch(service, client)
    check_reading(client, out)
    refusal = first_refusal(client, "during")
    assert refusal.code in ("RESOURCE_EXHAUSTED", "UNAVAILABLE"), refusal
    wait_for("the condition", lambda: "CATALOG_READ_ONLY" in conditions(client))
    assert service.job_files() == before


def check_writing_resumed(service: Service, client: Client) -> None:
    wait_for("the disk to be used", lambda: not conditions(client))
    wait_for("the endpoint file", (service.data / "endpoint").exists)
    assert client.submit(SPEC, "after").wait(120).state == "SUCCEEDED"


@pytest.mark.parametrize("crashed", [False, True])
def test_a_start_on_a_full_disk_reads_and_deletes(
    service: Service, tmp_path: pathlib.Path, crashed: bool
) -> None:
    """It did not start, so nobody could delete anything."""
    end(service, crashed)
    ballast = fill(service.data)
    with Client(service.listen) as client:
        check_start_without_room(service, client, tmp_path / "out")
        client.job("done").delete()
        wait_for("the disk to be used", lambda: not conditions(client))
        ballast.unlink()  # The job removed was a small one.
        check_writing_resumed(service, client)
        assert "jobs/done" not in {job.name for job in list_jobs(client)}


@pytest.mark.parametrize("crashed", [False, True])
def test_a_start_on_a_read_only_disk_reads(
    service: Service, tmp_path: pathlib.Path, crashed: bool
) -> None:
    end(service, crashed)
    (service.data / "endpoint").unlink(missing_ok=True)
    remount(service.data, "ro")
    with Client(service.listen) as client:
        check_start_without_room(service, client, tmp_path / "out")
        remount(service.data, "rw")
        check_writing_resumed(service, client)


def test_sigterm_with_a_full_disk_ends_soon(service: Service) -> None:
    """It waited 120 s for workers whose end it could not record."""
    with Client(service.listen) as client:
        job = client.submit(SPEC | {"tokens": 100_000_000}, "runs")
        wait_for("a checkpoint", lambda: list(job.checkpoints()))
        ballast = fill(service.data)
        wait_for("the condition", lambda: "CATALOG_READ_ONLY" in conditions(client))
        began = time.monotonic()
        assert service.terminate() == 0
        assert time.monotonic() - began < 30
        ballast.unlink()
        service.start()
        wait_for("the job to run", lambda: client.job("runs").state == "RUNNING")
