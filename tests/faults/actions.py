"""What people do with a server: submit, fork, steer, watch, download, delete, upload.

Each action does one thing, tells the oracle what was answered, and yields what is wrong with it.
"""

from __future__ import annotations

import hashlib
import pathlib
import random
import shutil
import time
from collections.abc import Iterable, Iterator
from typing import Any

import google_crc32c
from lorsa.client import Client
from lorsa.client.blocking import Checkpoint
from lorsa.client.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    NotFoundError,
)
from lorsa.v1.activation_service_pb2 import (
    GetUploadRequest,
    RegisterActivationSetRequest,
    UploadData,
    UploadShardRequest,
    UploadStart,
)
from lorsa.v1.checkpoint_service_pb2 import PinCheckpointRequest
from lorsa.v1.job_service_pb2 import (
    CancelJobRequest,
    CreateJobRequest,
    CreateSweepRequest,
    DeleteJobRequest,
    ForkJobRequest,
    GetJobRequest,
    ListJobsRequest,
    PauseJobRequest,
    ResumeJobRequest,
    RetryJobRequest,
    WatchJobRequest,
)
from lorsa.v1.job_spec_pb2 import JobSpec
from lorsa.v1.metric_service_pb2 import StreamMetricsRequest
from lorsa.v1.sweep_pb2 import SweepParameter
from lorsa.v1.training_spec_pb2 import TrainingSpec
from oracle import JobFacts, Oracle
from reading import for_a_while, list_checkpoints, read_logs

MOST_UNENDED_JOBS = 4
MOST_SETS = 3
UPLOAD_CHUNK = 16 << 10
KEEPS_ALL = 1000  # checkpoints
REPUBLICATION_SECONDS = 30.0  # at most, from the new files of a step to its new record
SMALL = TrainingSpec(
    activation_set="set",
    n_ov_heads=64,
    n_qk_heads=8,
    top_k=8,
    threads=1,
    sequences_per_step=4,
    evaluation_interval_tokens=2560,
)
TOKENS_PER_STEP = 128
# What is submitted: steps, steps between checkpoints, how many of them are kept.
VARIANTS = {
    "everything": (150, 5, KEEPS_ALL),
    "newest": (400, 10, 2),
    "long": (800, 50, 4),
}


def spec_of(variant: str) -> JobSpec:
    steps, interval, kept = VARIANTS[variant]
    spec = JobSpec(training=SMALL)
    spec.training.tokens = steps * TOKENS_PER_STEP
    spec.training.checkpoint_interval_tokens = interval * TOKENS_PER_STEP
    spec.training.keep_checkpoints = kept
    return spec


class Actions:
    """Of one client after the other, or of several at once."""

    def __init__(self, oracle: Oracle, folder: pathlib.Path) -> None:
        """`folder` has the set `to_upload`; downloads go there too."""
        self._oracle = oracle
        self._folder = folder

    def all(self) -> list[Any]:
        """Each a function of a client and of chance."""
        return [
            self.submit,
            self.sweep,
            self.steer,
            self.delete,
            self.read,
            self.watch,
            self.follow_metrics,
            self.download,
            self.upload,
        ]

    def _some_job(self, chance: random.Random, living: bool = False) -> JobFacts | None:
        """An acknowledged job that nobody deletes, more likely a newer one."""
        jobs = [each for each in self._oracle.jobs() if each.acknowledged and not each.retired]
        if living:
            jobs = [each for each in jobs if not each.has_ended]
        return chance.choice(jobs[-10:]) if jobs else None

    def _is_busy(self) -> bool:
        return sum(not each.has_ended for each in self._oracle.jobs()) >= MOST_UNENDED_JOBS

    # --- Jobs that begin. ---

    def submit(self, client: Client, chance: random.Random) -> Iterable[str]:
        jobs = [each for each in self._oracle.jobs() if not each.of_sweep]
        unanswered = [each for each in jobs if each.acknowledged is None]
        if unanswered:  # perhaps it was made, perhaps not
            return self._request(client, unanswered[0])
        answered = self._some_job(chance)
        if answered is not None and not answered.of_sweep and chance.random() < 0.3:
            return self._request_again(client, answered)
        if self._is_busy():
            return []
        if chance.random() < 0.25 and (fork := self._fork(chance)) is not None:
            return self._request(client, self._oracle.intend(fork))
        variant = chance.choice(list(VARIANTS))
        request = CreateJobRequest(
            job_id=f"{variant}-{_word(chance)}", spec=spec_of(variant), request_id=_word(chance)
        )
        return self._request(client, self._oracle.intend(request))

    def _fork(self, chance: random.Random) -> ForkJobRequest | None:
        """Of a checkpoint that stays."""
        source = self._some_job(chance)
        if source is None or not source.keeps_all or not source.checkpoints:
            return None
        return ForkJobRequest(
            checkpoint=chance.choice(list(source.checkpoints)),
            job_id=f"fork-{_word(chance)}",
            changes=TrainingSpec(tokens=200 * TOKENS_PER_STEP, learning_rate=1e-3),
            request_id=_word(chance),
        )

    def _request(self, client: Client, facts: JobFacts) -> Iterable[str]:
        is_fork = isinstance(facts.request, ForkJobRequest)
        method = client.stubs.job.ForkJob if is_fork else client.stubs.job.CreateJob
        return self._oracle.saw_job(client.call(method, facts.request))

    def _request_again(self, client: Client, facts: JobFacts) -> Iterable[str]:
        """The same request makes no second job, and its id is given to no other one."""
        yield from self._request(client, facts)
        try:
            other = spec_of("everything")
            other.training.top_k = 7
            request = CreateJobRequest(job_id=facts.request.job_id, spec=other)
            request.request_id = facts.request.request_id
            client.call(client.stubs.job.CreateJob, request)
            yield f"{facts.name}: its id was given away again"
        except AlreadyExistsError:
            pass

    def sweep(self, client: Client, chance: random.Random) -> Iterable[str]:
        """Two jobs by one request, now and then."""
        unanswered = [each for each in self._oracle.sweeps() if not each.acknowledged]
        if not unanswered and (self._is_busy() or chance.random() > 0.1):
            return
        if unanswered:
            request = unanswered[0].request
        else:
            parameter = SweepParameter(field="seed", values=["1", "2"])
            request = CreateSweepRequest(
                sweep_id=f"sweep-{_word(chance)}",
                spec=spec_of("newest").training,
                parameters=[parameter],
                request_id=_word(chance),
            )
            self._oracle.intend_sweep(request)
        sweep = client.call(client.stubs.job.CreateSweep, request)
        page = client.call(client.stubs.job.ListJobs, ListJobsRequest(sweep=sweep.name))
        for job in page.jobs:
            job_id = job.name.split("/")[1]
            self._oracle.intend(CreateJobRequest(job_id=job_id, spec=job.spec), of_sweep=True)
            yield from self._oracle.saw_job(job)
        yield from self._oracle.saw_sweep(sweep, len(page.jobs))

    # --- Jobs under way. ---

    def steer(self, client: Client, chance: random.Random) -> Iterable[str]:
        facts = self._some_job(chance)
        if facts is None:
            return []
        job = client.stubs.job
        method, request = chance.choices(
            [
                (job.PauseJob, PauseJobRequest(name=facts.name)),
                (job.ResumeJob, ResumeJobRequest(name=facts.name)),
                (job.RetryJob, RetryJobRequest(name=facts.name)),
                (job.CancelJob, CancelJobRequest(name=facts.name)),
            ],
            weights=[4, 16, 2, 0.2],
        )[0]
        try:
            return self._oracle.saw_job(client.call(method, request))
        except FailedPreconditionError:  # it is in another state
            return []

    def delete(self, client: Client, chance: random.Random) -> Iterable[str]:
        """A job that ended long ago and was looked at since."""
        retired = [each for each in self._oracle.jobs() if each.retired and not each.deleted]
        if not retired or chance.random() > 0.2:
            return []
        facts = retired[0]
        try:
            client.call(client.stubs.job.DeleteJob, DeleteJobRequest(name=facts.name, force=True))
        except NotFoundError:  # so an earlier request had come through
            if not facts.deletion_sent:
                return [f"{facts.name} is lost"]
        finally:
            facts.deletion_sent = True
        facts.deleted = True
        return []

    def read(self, client: Client, chance: random.Random) -> Iterable[str]:
        facts = self._some_job(chance)
        if facts is None:
            return
        request = GetJobRequest(name=facts.name)
        yield from self._oracle.saw_job(client.call(client.stubs.job.GetJob, request))
        yield from self._oracle.saw_logs(facts.name, read_logs(client, facts.name))

    def watch(self, client: Client, chance: random.Random) -> Iterable[str]:
        """For a while; then the watch is cancelled."""
        facts = self._some_job(chance)
        if facts is None:
            return
        request = WatchJobRequest(name=facts.name)
        seconds = chance.uniform(0.2, 1.5)
        for response in for_a_while(client, client.stubs.job.WatchJob, request, seconds):
            if response.HasField("job"):
                yield from self._oracle.saw_job(response.job)
            elif response.HasField("event"):
                yield from self._oracle.saw_event(facts.name, response.event)

    def follow_metrics(self, client: Client, chance: random.Random) -> Iterable[str]:
        facts = self._some_job(chance)
        if facts is None:
            return
        after = chance.choice([0, facts.sequence])
        request = StreamMetricsRequest(job=facts.name, after_sequence=after)
        method, seconds = client.stubs.metric.StreamMetrics, chance.uniform(0.2, 1.5)
        for response in for_a_while(client, method, request, seconds):
            sequences = [after, *(point.sequence for point in response.points)]
            if sequences != sorted(set(sequences)):
                yield f"{facts.name}: metrics out of order, {sequences}"
            after = sequences[-1]
            yield from self._oracle.saw_points(facts.name, response.points)

    # --- Files. ---

    def download(self, client: Client, chance: random.Random) -> Iterable[str]:
        facts = self._some_job(chance)
        if facts is None:
            return
        listed = list_checkpoints(client, facts.name)
        yield from self._oracle.saw_checkpoints(facts.name, listed)
        if not listed:
            return
        chosen = chance.choice(listed)
        folder = self._folder / _word(chance)
        try:
            if chance.random() < 0.2:
                request = PinCheckpointRequest(name=chosen.name)
                client.call(client.stubs.checkpoint.PinCheckpoint, request)
                self._oracle.saw_pin(facts.name, chosen.name)
            Checkpoint(client, chosen).download(folder)
        except NotFoundError as error:  # retention took it meanwhile
            if facts.keeps_all:
                yield f"{chosen.name} was listed and cannot be read: {error}"
            return
        except AbortedError as error:  # its step was published again meanwhile, with an evaluation
            # Its new files stand in its place a moment before the new record does.
            deadline = time.monotonic() + REPUBLICATION_SECONDS
            while chosen in list_checkpoints(client, facts.name):
                if time.monotonic() > deadline:
                    yield f"{chosen.name} is listed and cannot be read: {error}"
                    return
                time.sleep(0.05)
            return
        for file in chosen.files:
            if hashlib.sha256((folder / file.name).read_bytes()).hexdigest() != file.sha256:
                yield f"{chosen.name}: {file.name} was downloaded as something else"
        shutil.rmtree(folder)

    def upload(self, client: Client, chance: random.Random) -> Iterable[str]:
        """One more file of a set, or the last step; goes on where a cut left it."""
        sets = self._oracle.sets()
        current = next((each for each in sets if each.registered is None), None)
        if current is None:
            if len(sets) >= MOST_SETS:
                return
            current = self._oracle.intend_set(f"up-{_word(chance)}")
        request = GetUploadRequest(activation_set_id=current.set_id)
        received = {
            file.file: file
            for file in client.call(client.stubs.activation.GetUpload, request).files
        }
        for path in sorted((self._folder / "to_upload").iterdir()):
            there = received.get(path.name)
            if there is None or not there.complete:
                messages = _upload(current.set_id, path, there.received_bytes if there else 0)
                client.call(client.stubs.activation.UploadShard, messages)
                current.files[path.name] = path.stat().st_size
                return
        register = RegisterActivationSetRequest(activation_set_id=current.set_id)
        for answer in client.stream(client.stubs.activation.RegisterActivationSet, register, 60):
            if answer.HasField("activation_set"):
                yield from self._oracle.saw_set(current.set_id, answer.activation_set)


def _word(chance: random.Random) -> str:
    return f"{chance.getrandbits(48):012x}"


def _upload(set_id: str, path: pathlib.Path, offset: int) -> Iterator[UploadShardRequest]:
    contents = path.read_bytes()
    start = UploadStart(
        activation_set_id=set_id,
        file=path.name,
        size_bytes=len(contents),
        sha256=hashlib.sha256(contents).hexdigest(),
        offset=offset,
    )
    yield UploadShardRequest(start=start)
    for at in range(offset, len(contents), UPLOAD_CHUNK):
        data = contents[at : at + UPLOAD_CHUNK]
        yield UploadShardRequest(data=UploadData(data=data, crc32c=google_crc32c.value(data)))
