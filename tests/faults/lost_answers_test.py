"""Answers that get lost on their way, and requests that are then sent again."""

from __future__ import annotations

import pathlib
import random
import threading
import time
from collections.abc import Iterator

import pytest
from finished_job import SPEC
from history import history_problems, read_history, state_name
from lorsa.client import Client
from lorsa.client.errors import AlreadyExistsError, UnavailableError
from lorsa.client.spec import create_job_request
from proxy import Proxy
from reading import list_checkpoints, list_jobs, query_metrics
from service import PATIENCE, Service, wait_for


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service")) as service:
        service.add_set()
        yield service


def has_job(client: Client, name: str) -> bool:
    return name in [job.name for job in list_jobs(client)]


def test_a_job_whose_creation_went_unanswered_is_made_once(service: Service) -> None:
    with (
        Proxy(service.listen) as proxy,
        Client(service.listen) as direct,
        Client(proxy.address) as client,
    ):
        client.server_info()  # connects
        proxy.swallow_answers()
        answers = []
        # gRPC sends it again by itself when the connection breaks.
        submit = threading.Thread(target=lambda: answers.append(client.submit(SPEC, "lost")))
        submit.start()
        wait_for("the job to be made", lambda: has_job(direct, "jobs/lost"))
        made = direct.job("lost").proto
        proxy.cut()
        submit.join(PATIENCE)
        assert [answer.proto.create_time for answer in answers] == [made.create_time]
        assert [job.name for job in list_jobs(direct)].count("jobs/lost") == 1


def test_a_request_is_remembered_by_the_next_server(service: Service) -> None:
    request = create_job_request(SPEC, "remembered", validate_only=False)
    with Client(service.listen) as client:
        made = client.call(client.stubs.job.CreateJob, request)
        service.kill()
        service.start()
        again = client.call(client.stubs.job.CreateJob, request)
        assert (again.name, again.create_time) == (made.name, made.create_time)
        request.spec.training.top_k = 7
        with pytest.raises(AlreadyExistsError):
            client.call(client.stubs.job.CreateJob, request)
        request.spec.training.top_k = 8
        request.request_id = "another"
        with pytest.raises(AlreadyExistsError):
            client.call(client.stubs.job.CreateJob, request)


def test_a_cancellation_that_went_unanswered_holds_and_may_be_repeated(service: Service) -> None:
    with (
        Proxy(service.listen) as proxy,
        Client(service.listen) as direct,
        Client(proxy.address) as client,
    ):
        job = client.submit(SPEC | {"tokens": 10_000_000}, "cancelled")
        wait_for("the job to run", lambda: job.refresh().state == "RUNNING")
        proxy.swallow_answers()
        errors: list[BaseException] = []

        def cancel() -> None:
            try:
                job.cancel()
            except UnavailableError as error:
                errors.append(error)

        cancelling = threading.Thread(target=cancel)
        cancelling.start()
        seen = direct.job("cancelled")
        wait_for("the request", lambda: seen.refresh().state in ("CANCELLING", "CANCELLED"))
        proxy.cut()
        cancelling.join(PATIENCE)
        assert len(errors) == 1
        assert job.wait(PATIENCE).state == "CANCELLED"


@pytest.mark.long
def test_a_worker_whose_connection_breaks_again_and_again_trains_the_same(
    service: Service,
) -> None:
    """The worker reaches the server through a proxy, which loses what the server answers, then cuts
    the connection: metrics, checkpoints and the outcome are sent again, and counted once.
    """
    chance = random.Random(5)
    spec = SPEC | {"tokens": 128_000, "checkpoint_interval_tokens": 1280, "keep_checkpoints": 1000}
    with Client(service.listen) as client, Proxy(service.listen) as proxy:
        undisturbed = client.submit(spec, "undisturbed")
        assert undisturbed.wait(PATIENCE).state == "SUCCEEDED"
        (service.data / "endpoint").write_text(proxy.address + "\n")
        job = client.submit(spec, "disturbed")
        cuts = 0
        while not job.refresh().has_ended:
            time.sleep(chance.uniform(0.3, 1.2))
            proxy.swallow_answers()
            time.sleep(chance.uniform(0, 0.3))
            proxy.cut()
            cuts += 1
        assert cuts >= 3
        assert job.state == "SUCCEEDED"
        assert job.proto.attempt == 1
        assert not history_problems(*read_history(client, job.name))

        def digests(name: str) -> list[tuple[int, str]]:
            return [
                (checkpoint.step, file.sha256)
                for checkpoint in list_checkpoints(client, name)
                for file in checkpoint.files
                if file.name.endswith(".safetensors")
            ]

        def losses(name: str) -> list[tuple[int, int, float]]:
            points = query_metrics(client, name)
            return [(p.kind, p.step, p.values["fvu" if p.kind == 2 else "loss"]) for p in points]

        assert digests(job.name) == digests(undisturbed.name)
        assert losses(job.name) == losses(undisturbed.name)
    assert state_name(job.proto.state) == "SUCCEEDED"
    (service.data / "endpoint").write_text(service.listen + "\n")


def test_the_proxy_itself_passes_everything_on(service: Service, tmp_path: pathlib.Path) -> None:
    with Proxy(service.listen) as proxy, Client(proxy.address) as client:
        client.submit(SPEC, "through").wait(PATIENCE)
        client.job("through").checkpoint("latest").download(tmp_path / "out")
