"""lorsa-track with the real TensorBoard, MLflow and Weights & Biases, and the real lorsad."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from finished_job import service_with_finished_job
from lorsa.client import Client, Job
from lorsa.track import follow
from lorsa.track.command import main
from mlflow import MlflowClient
from pages import code_of, run_shell
from service import Service
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service_with_finished_job(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def job(service: Service) -> Iterator[Job]:
    with Client(service.address) as client:
        yield client.job("done")


def track(service: Service, *arguments: str) -> int:
    return main(["done", "--server", service.address, *arguments])


def interrupted_after(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run of the command dies while it handles this point."""
    tagged = follow.tagged
    left = points

    def dying(point: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return tagged(point)

    monkeypatch.setattr(follow, "tagged", dying)


def expected(job: Job) -> dict[str, list[tuple[int, float]]]:
    """Every tag with its steps and numbers, from the server."""
    result: dict[str, list[tuple[int, float]]] = {}
    for kind in ("training", "evaluation"):
        table = job.metrics(kind)
        for name in table.columns.keys() - {"step", "attempt"}:
            pairs = zip(table["step"].tolist(), table[name].tolist(), strict=True)
            result[f"{kind}/{name}"] = [(s, v) for s, v in pairs if v == v]
    return result


def in_tensorboard(folder: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {
        tag: [(each.step, each.value) for each in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def in_mlflow(client: MlflowClient, run: Any) -> dict[str, list[tuple[int, float]]]:
    return {
        tag: sorted((each.step, each.value) for each in client.get_metric_history(run, tag))
        for tag in client.get_run(run).data.metrics
    }


def check(found: dict[str, list[tuple[int, float]]], job: Job) -> None:
    wanted = expected(job)
    assert found.keys() == wanted.keys()
    for tag, points in wanted.items():
        assert [step for step, _ in found[tag]] == [step for step, _ in points], tag
        for (_, got), (_, want) in zip(found[tag], points, strict=True):
            assert got == pytest.approx(want, rel=1e-6), tag  # TensorBoard keeps fp32


def test_tensorboard_has_each_point_once(
    service: Service, job: Job, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"tensorboard:{tmp_path}"
    with monkeypatch.context() as patch:
        interrupted_after(13, patch)
        assert track(service, "--to", target) == 130
    assert track(service, "--to", target) == 0
    check(in_tensorboard(tmp_path / "done"), job)
    assert track(service, "--to", target) == 0, "once more: nothing is new"
    check(in_tensorboard(tmp_path / "done"), job)
    events = EventAccumulator(str(tmp_path / "done"))
    events.Reload()
    (text,) = events.Tensors("configuration")
    assert b"n_ov_heads: 64" in text.tensor_proto.string_val[0]


def test_mlflow_has_each_point_once_and_the_checkpoint(
    service: Service, job: Job, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with monkeypatch.context() as patch:
        interrupted_after(13, patch)
        assert track(service, "--to", f"mlflow:{uri}") == 130
    client = MlflowClient(tracking_uri=uri)
    (experiment,) = [e for e in client.search_experiments() if e.name == "lorsa"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert (
        0 < len(in_mlflow(client, run.info.run_id)["training/loss"]) < len(job.metrics("training"))
    )
    assert run.info.status == "RUNNING"

    for _ in range(2):
        assert track(service, "--to", f"mlflow:{uri}", "--checkpoints", "best") == 0
        (run,) = client.search_runs([experiment.experiment_id])
        check(in_mlflow(client, run.info.run_id), job)
    assert run.info.status == "FINISHED"
    assert run.data.params["n_ov_heads"] == "64"
    best = job.checkpoint("best")
    folder = f"checkpoints/{best.name.rsplit('/', 1)[-1]}"
    local = pathlib.Path(client.download_artifacts(run.info.run_id, folder, str(tmp_path)))
    digests = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in local.iterdir()}
    assert digests == {file.name: file.sha256 for file in best.proto.files}


def test_weights_and_biases_offline(
    service: Service, job: Job, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert os.environ["WANDB_MODE"] == "offline"
    assert track(service, "--to", "wandb") == 0
    (sent,) = (tmp_path / "wandb").glob("lorsa-*.jsonl")
    keys = [tuple(json.loads(line)) for line in sent.read_text().splitlines()]
    wanted = {(tag, step) for tag, points in expected(job).items() for step, _ in points}
    assert len(keys) == len(set(keys))
    assert set(keys) == wanted
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert track(service, "--to", "wandb") == 0
    assert len(sent.read_text().splitlines()) == len(keys)


def test_what_a_tracker_cannot_do_is_said(
    service: Service, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--to", f"tensorboard:{tmp_path}", "--checkpoints", "best")
    assert track(service, *arguments) == 1
    assert "keeps no files" in capsys.readouterr().err
    assert track(service, "--to", "neptune:x") == 1
    assert "is not tensorboard:DIR" in capsys.readouterr().err
    assert main(["nowhere", "--server", service.address, "--to", f"tensorboard:{tmp_path}"]) == 1


def test_the_page_of_trackers(service: Service, job: Job, tmp_path: pathlib.Path) -> None:
    (code,) = code_of("trackers.md", "bash")
    assert code.count("lorsa-track demo") == 3
    run_shell(code.replace("lorsa-track demo", "lorsa-track done"), tmp_path, service.address)
    check(in_tensorboard(tmp_path / "runs" / "done"), job)
    assert (tmp_path / "mlflow.db").exists()
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
