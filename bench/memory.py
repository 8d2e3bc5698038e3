#!/usr/bin/env python3
"""The measurement behind bench/memory.sh; last line "growth_percent P"."""

import argparse
import contextlib
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from finished_job import SPEC, service_with_finished_job
from lorsa.client import Client
from lorsa.client.errors import RpcError
from lorsa.client.spec import create_job_request
from lorsa.v1 import (
    activation_service_pb2,
    checkpoint_service_pb2,
    job_service_pb2,
    metric_service_pb2,
)
from measure import growth_percent, load_average, resident_megabytes
from service import PATIENCE, wait_for

SET, DONE, HELD = "activationSets/set", "jobs/done", "jobs/held"
LATEST = f"{DONE}/checkpoints/latest"
SAMPLE_EVERY = 500


class Requests:
    """Of each kind one, to a server with a finished job, `done`, and a paused one, `held`."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.client = Client(server)
        self.stubs = self.client.stubs
        self.newest = self.client.job("done").checkpoint("latest").proto
        self.set_folder = self.client.sets.get("set").path

    def kinds(self) -> dict[str, Callable[[], object]]:
        return {
            name.removeprefix("ask_"): getattr(self, name)
            for name in sorted(dir(self))
            if name.startswith("ask_")
        }

    def all_of(self, method: Any, request: Any) -> None:
        for _ in self.client.stream(method, request, PATIENCE):
            pass

    def first_of(self, method: Any, request: Any) -> None:
        """Opens a stream and leaves it after its first message."""
        with contextlib.closing(self.client.stream(method, request, PATIENCE)) as messages:
            next(messages)

    def refused(self, code: str, method: Any, request: Any) -> None:
        try:
            self.client.call(method, request)
        except RpcError as error:
            assert error.code == code, error
        else:
            raise AssertionError(f"{request} was not refused")

    def create(self, **fields: Any) -> job_service_pb2.CreateJobRequest:
        return create_job_request(SPEC | fields, "new", validate_only=True)

    # --- Calls with one answer ---

    def ask_server_info_on_a_new_connection(self) -> None:
        with Client(self.server) as client:
            client.server_info()

    def ask_list_jobs(self) -> None:
        list(self.client.jobs())

    def ask_get_job(self) -> None:
        self.client.job("done")

    def ask_list_sweeps(self) -> None:
        self.client.call(self.stubs.job.ListSweeps, job_service_pb2.ListSweepsRequest())

    def ask_list_sets(self) -> None:
        list(self.client.sets.list())

    def ask_get_set(self) -> None:
        self.client.sets.get("set")

    def ask_list_checkpoints(self) -> None:
        self.client.job("done").checkpoints()

    def ask_pin_and_unpin_checkpoint(self) -> None:
        name = self.newest.name
        checkpoint = self.stubs.checkpoint
        pin = checkpoint_service_pb2.PinCheckpointRequest(name=name)
        unpin = checkpoint_service_pb2.UnpinCheckpointRequest(name=name)
        self.client.call(checkpoint.PinCheckpoint, pin)
        self.client.call(checkpoint.UnpinCheckpoint, unpin)

    def ask_query_metrics(self) -> None:
        request = metric_service_pb2.QueryMetricsRequest(
            job=DONE, kind=metric_service_pb2.METRIC_KIND_TRAINING
        )
        assert len(self.client.call(self.stubs.metric.QueryMetrics, request).points) == 50

    def ask_query_metrics_thinned(self) -> None:
        request = metric_service_pb2.QueryMetricsRequest(
            job=DONE, kind=metric_service_pb2.METRIC_KIND_TRAINING, max_points=10
        )
        assert len(self.client.call(self.stubs.metric.QueryMetrics, request).points) == 10

    def ask_create_validate_only(self) -> None:
        self.client.call(self.stubs.job.CreateJob, self.create())

    # --- Calls that are refused ---

    def ask_create_with_wrong_fields(self) -> None:
        self.refused("INVALID_ARGUMENT", self.stubs.job.CreateJob, self.create(top_k=1 << 20))

    def ask_create_under_a_taken_id(self) -> None:
        request = create_job_request(SPEC, "done")
        self.refused("ALREADY_EXISTS", self.stubs.job.CreateJob, request)

    def ask_get_unknown_job(self) -> None:
        request = job_service_pb2.GetJobRequest(name="jobs/unknown")
        self.refused("NOT_FOUND", self.stubs.job.GetJob, request)

    def ask_resume_a_finished_job(self) -> None:
        request = job_service_pb2.ResumeJobRequest(name=DONE)
        self.refused("FAILED_PRECONDITION", self.stubs.job.ResumeJob, request)

    def ask_unimplemented_method(self) -> None:
        with grpc.insecure_channel(self.server) as channel:
            method = channel.unary_unary("/lorsa.v1.JobService/NoSuchMethod")
            self.refused("UNIMPLEMENTED", method, b"")

    # --- Streams ---

    def ask_watch_a_finished_job(self) -> None:
        updates = list(self.client.job("done").watch())
        assert updates

    def ask_watch_and_leave(self) -> None:
        request = job_service_pb2.WatchJobRequest(name=HELD)
        self.first_of(self.stubs.job.WatchJob, request)

    def ask_stream_metrics(self) -> None:
        request = metric_service_pb2.StreamMetricsRequest(job=DONE)
        self.all_of(self.stubs.metric.StreamMetrics, request)

    def ask_stream_metrics_and_leave(self) -> None:
        request = metric_service_pb2.StreamMetricsRequest(job=HELD)
        self.first_of(self.stubs.metric.StreamMetrics, request)

    def ask_read_logs(self) -> None:
        list(self.client.job("done").logs())

    def ask_read_file(self) -> None:
        for file in self.newest.files:
            request = checkpoint_service_pb2.ReadFileRequest(name=self.newest.name, file=file.name)
            self.all_of(self.stubs.checkpoint.ReadFile, request)

    def ask_read_attention_weights(self) -> None:
        request = activation_service_pb2.ReadAttentionWeightsRequest(name=SET)
        self.all_of(self.stubs.activation.ReadAttentionWeights, request)

    def ask_stream_sequences(self) -> None:
        request = activation_service_pb2.StreamSequencesRequest(
            name=SET, subset=activation_service_pb2.SEQUENCE_SUBSET_TRAINING, limit=32
        )
        self.all_of(self.stubs.activation.StreamSequences, request)

    def ask_stream_sequences_and_leave(self) -> None:
        request = activation_service_pb2.StreamSequencesRequest(
            name=SET, subset=activation_service_pb2.SEQUENCE_SUBSET_TRAINING
        )
        self.first_of(self.stubs.activation.StreamSequences, request)

    def ask_register_again(self) -> None:
        self.client.sets.register("set", self.set_folder)

    def ask_verify_set(self) -> None:
        request = activation_service_pb2.VerifyActivationSetRequest(name=SET)
        self.all_of(self.stubs.activation.VerifyActivationSet, request)


def hold_a_job(client: Client) -> None:
    """Leaves `held` PAUSED: it can be watched without end and takes no processor time."""
    job = client.submit(SPEC | {"tokens": 64_000_000}, "held")
    wait_for("the job's first steps", lambda: len(job.metrics("training")) > 0)
    job.pause()
    wait_for("the job to pause", lambda: job.refresh().state == "PAUSED", PATIENCE)


def measure(requests: Requests, pid: int, count: int) -> list[float]:
    """Megabytes after each SAMPLE_EVERY requests."""
    samples = []
    kinds = itertools.cycle(requests.kinds().values())
    for number, ask in enumerate(itertools.islice(kinds, count), 1):
        ask()
        if number % SAMPLE_EVERY == 0:
            samples.append(resident_megabytes(pid))
            print(f"| {number} | {samples[-1]:.1f} |", flush=True)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warm-up", type=int, default=2000)
    parser.add_argument("--requests", type=int, default=10_000)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        service_with_finished_job(Path(folder)) as service,
    ):
        requests = Requests(service.address)
        hold_a_job(requests.client)
        assert service.process is not None
        pid = service.process.pid
        print(f"Kinds: {', '.join(requests.kinds())}. {load_average()}.\n")
        print("| requests | resident MB |\n|---|---|")
        warm = measure(requests, pid, args.warm_up)
        samples = measure(requests, pid, args.requests)
        print(
            f"\n{warm[0]:.1f} MB after {SAMPLE_EVERY} requests, {warm[-1]:.1f} after the warm-up, "
            f"{samples[-1]:.1f} at the end, {resident_megabytes(pid, 'VmHWM'):.1f} at the peak"
        )
        print(f"growth_percent {growth_percent(samples):.1f}")


if __name__ == "__main__":
    main()
