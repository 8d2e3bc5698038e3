"""What a server acknowledged, kept outside of its data folder, and whether it still stands by it.

Clients tell the oracle each answer that they got. After a fault `Oracle.check` asks the server for
everything again. What may differ is only what the API says may differ: a newer attempt's metric
takes the place of an older one's, and retention removes checkpoints that a job does not keep.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from history import FINAL, history_problems, read_history, state_name
from lorsa.client import Client
from lorsa.client.errors import NotFoundError
from lorsa.v1.activation_service_pb2 import ActivationSet, GetUploadRequest
from lorsa.v1.checkpoint_service_pb2 import Checkpoint
from lorsa.v1.job_pb2 import Job, JobEvent
from lorsa.v1.job_service_pb2 import (
    CreateJobRequest,
    CreateSweepRequest,
    ForkJobRequest,
    GetSweepRequest,
)
from lorsa.v1.metric_service_pb2 import METRIC_KIND_TRAINING, MetricPoint
from lorsa.v1.sweep_pb2 import Sweep
from reading import list_checkpoints, list_jobs, query_metrics, read_logs

# A server gives a job up after this many losses at the least.
FEWEST_LOSSES_TO_FAIL = 3
# Of a metric: equal each time that a step is run. The rest depends on the clock or the process.
REPRODUCED_VALUES = ("loss", "fvu", "l0", "learning_rate", "gradient_norm")
# Of a checkpoint: equal each time that a step is run (docs/checkpoint_format.md).
REPRODUCED_FILES = ("lorsa.safetensors", "state.safetensors", "config.json")


@dataclass
class JobFacts:
    """All that was ever answered about one job."""

    request: CreateJobRequest | ForkJobRequest
    of_sweep: bool = False
    acknowledged: Job | None = None  # the first answer
    states: dict[int, int] = field(default_factory=dict)  # by revision
    events: dict[int, JobEvent] = field(default_factory=dict)  # by revision
    points: dict[tuple[int, int], MetricPoint] = field(default_factory=dict)  # by kind and step
    sequence: int = 0  # of the newest point
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)  # each ever listed, by name
    pinned: set[str] = field(default_factory=set)
    logs: dict[int, str] = field(default_factory=dict)  # by attempt
    worker_kills: int = 0
    settled: bool = False  # ended, and held when it was looked at after that
    retired: bool = False  # nobody uses it any more: it may be deleted
    deletion_sent: bool = False
    deleted: bool = False  # so it was answered

    @property
    def name(self) -> str:
        return f"jobs/{self.request.job_id}"

    @property
    def state(self) -> str:
        """Of the newest revision seen; empty before the first."""
        return state_name(self.states[max(self.states)]) if self.states else ""

    @property
    def has_ended(self) -> bool:
        return self.state in FINAL

    @property
    def keeps_all(self) -> bool:
        """Its retention removes nothing."""
        return self.acknowledged is not None and (
            self.acknowledged.resolved_spec.training.keep_checkpoints >= 1000
        )

    @property
    def first_step(self) -> int:
        """Of its training metrics."""
        assert self.acknowledged is not None
        return int(self.acknowledged.forked_from.rpartition("-")[2] or 0) + 1


@dataclass
class SweepFacts:
    request: CreateSweepRequest
    acknowledged: bool = False


@dataclass
class SetFacts:
    """A set that is uploaded."""

    set_id: str
    files: dict[str, int] = field(default_factory=dict)  # sizes of those that were acknowledged
    registered: ActivationSet | None = None


class Oracle:
    """Thread-safe. What takes an answer returns what is wrong with it, given the earlier ones; the
    answers may come in another order than that in which they were given.
    """

    def __init__(self) -> None:
        self._mu = threading.Lock()
        self._jobs: dict[str, JobFacts] = {}
        self._sweeps: dict[str, SweepFacts] = {}
        self._sets: dict[str, SetFacts] = {}
        # A run that begins just then is refused: its checkpoints would find no room.
        self.disk_was_full = False

    def copy(self) -> Oracle:
        """One that has seen the same. What either sees from now on, the other does not."""
        other = Oracle()
        with self._mu:
            other._jobs = copy.deepcopy(self._jobs)
            other._sweeps = copy.deepcopy(self._sweeps)
            other._sets = copy.deepcopy(self._sets)
            other.disk_was_full = self.disk_was_full
        return other

    def jobs(self) -> list[JobFacts]:
        """In the order in which they were asked for."""
        with self._mu:
            return list(self._jobs.values())

    def sweeps(self) -> list[SweepFacts]:
        with self._mu:
            return list(self._sweeps.values())

    def sets(self) -> list[SetFacts]:
        with self._mu:
            return list(self._sets.values())

    def intend(
        self, request: CreateJobRequest | ForkJobRequest, of_sweep: bool = False
    ) -> JobFacts:
        """A job that is about to be asked for."""
        facts = JobFacts(request, of_sweep)
        with self._mu:
            return self._jobs.setdefault(facts.name, facts)

    def intend_sweep(self, request: CreateSweepRequest) -> None:
        with self._mu:
            self._sweeps[f"sweeps/{request.sweep_id}"] = SweepFacts(request)

    def intend_set(self, set_id: str) -> SetFacts:
        with self._mu:
            return self._sets.setdefault(set_id, SetFacts(set_id))

    def killed_worker_of(self, name: str) -> None:
        with self._mu:
            self._jobs[name].worker_kills += 1

    def saw_job(self, job: Job) -> list[str]:
        with self._mu:
            facts = self._jobs[job.name]
            if facts.acknowledged is None:
                facts.acknowledged = job
            first = facts.acknowledged
            problems = []
            if (job.create_time, job.spec) != (first.create_time, first.spec):
                problems.append(f"{job.name} is not the job that was acknowledged")
            return problems + _state_problems(facts, job.revision, job.state)

    def saw_event(self, name: str, event: JobEvent) -> list[str]:
        with self._mu:
            facts = self._jobs[name]
            problems = _state_problems(facts, event.revision, event.to_state)
            if facts.events.setdefault(event.revision, event) != event:
                problems.append(f"{name}: event {event.revision} changed")
            return problems

    def saw_points(self, name: str, points: Iterable[MetricPoint]) -> list[str]:
        problems = []
        with self._mu:
            facts = self._jobs[name]
            for point in points:
                known = facts.points.setdefault((point.kind, point.step), point)
                problems += [f"{name}: {each}" for each in _point_problems(known, point)]
                if point.sequence > known.sequence:
                    facts.points[point.kind, point.step] = point
                facts.sequence = max(facts.sequence, point.sequence)
        return problems

    def saw_checkpoints(self, name: str, listed: list[Checkpoint]) -> list[str]:
        with self._mu:
            facts = self._jobs[name]
            problems = []
            for checkpoint in listed:
                known = facts.checkpoints.get(checkpoint.name, checkpoint)
                problems += _checkpoint_problems(known, checkpoint)
                if checkpoint.attempt >= known.attempt:
                    facts.checkpoints[checkpoint.name] = checkpoint
            return problems

    def saw_sweep(self, sweep: Sweep, jobs: int) -> list[str]:
        with self._mu:
            facts = self._sweeps[sweep.name]
            facts.acknowledged = True
            asked = len(facts.request.parameters[0].values)
            if sweep.jobs == jobs == asked:
                return []
            return [f"{sweep.name} has {sweep.jobs} jobs and lists {jobs} of {asked}"]

    def saw_set(self, set_id: str, registered: ActivationSet) -> list[str]:
        with self._mu:
            facts = self._sets[set_id]
            facts.registered = facts.registered or registered
            if _contents(facts.registered) == _contents(registered):
                return []
            return [f"activationSets/{set_id} is not what was acknowledged"]

    def saw_pin(self, name: str, checkpoint: str) -> None:
        with self._mu:
            self._jobs[name].pinned.add(checkpoint)

    def saw_logs(self, name: str, texts: dict[int, str]) -> list[str]:
        """What each attempt has printed so far."""
        with self._mu:
            known = self._jobs[name].logs
            problems = []
            for attempt, text in texts.items():
                before = known.setdefault(attempt, text)
                shorter, longer = sorted((before, text), key=len)
                if not longer.startswith(shorter):
                    problems.append(f"{name}: the log of attempt {attempt} changed")
                known[attempt] = longer
            return problems

    def lost_power(self) -> None:
        """The one thing that is not promised through that: what workers printed last."""
        with self._mu:
            for facts in self._jobs.values():
                facts.logs.clear()

    def check(self, client: Client, everything: bool = False) -> list[str]:
        """What the server has lost or contradicts; nobody else may use it meanwhile. Jobs that
        ended and held since are looked at again only with `everything`.
        """
        listed = [job.name for job in list_jobs(client)]
        problems = [f"{name} is listed twice" for name in set(listed) if listed.count(name) > 1]
        for facts in self.jobs():
            if facts.acknowledged is None or (facts.deletion_sent and not facts.deleted):
                continue
            if facts.deleted:
                problems += [f"{facts.name} was deleted and is listed"] * (facts.name in listed)
            elif facts.name not in listed:
                problems.append(f"{facts.name} was acknowledged and is not listed")
            elif everything or not facts.settled:
                problems += self._check_job(client, facts)
        problems += self._check_sweeps(client)
        return problems + self._check_sets(client)

    def _check_job(self, client: Client, facts: JobFacts) -> list[str]:
        try:
            job, events = read_history(client, facts.name)
        except NotFoundError:
            return [f"{facts.name} was acknowledged and is lost"]
        problems = history_problems(job, events)
        revisions = range(1, job.revision + 1)
        problems += _lost(facts.name, "the state of revision", facts.states, revisions)
        problems += _lost(facts.name, "event", facts.events, revisions)
        problems += self.saw_job(job)
        for event in events:
            problems += self.saw_event(facts.name, event)
        problems += self._check_metrics(client, facts)
        problems += self._check_checkpoints(client, facts)
        logs = read_logs(client, facts.name)
        problems += self.saw_logs(facts.name, logs)
        if any(len(logs.get(attempt, "")) < len(text) for attempt, text in facts.logs.items()):
            problems.append(f"{facts.name}: lines of its log are lost")
        refused = self.disk_was_full and job.reason == "CANNOT_START"
        lost = refused or facts.worker_kills >= FEWEST_LOSSES_TO_FAIL
        if state_name(job.state) == "FAILED" and not lost:
            problems.append(f"{facts.name} FAILED: {job.reason} {job.message}")
        facts.settled = state_name(job.state) in FINAL and not problems
        facts.retired = facts.settled and not facts.of_sweep and facts.name[-1] in "01234567"
        return problems

    def _check_sweeps(self, client: Client) -> list[str]:
        problems = []
        for name, facts in list(self._sweeps.items()):
            if facts.acknowledged:
                sweep = client.call(client.stubs.job.GetSweep, GetSweepRequest(name=name))
                problems += self.saw_sweep(sweep, sweep.jobs)
        return problems

    def _check_sets(self, client: Client) -> list[str]:
        problems = []
        for facts in self.sets():
            if facts.registered is not None:
                problems += self.saw_set(facts.set_id, client.sets.get(facts.set_id))
                continue
            request = GetUploadRequest(activation_set_id=facts.set_id)
            upload = client.call(client.stubs.activation.GetUpload, request)
            complete = {file.file: file.received_bytes for file in upload.files if file.complete}
            if not facts.files.items() <= complete.items():
                problems.append(f"upload {facts.set_id}: of {facts.files} there is {complete}")
        return problems

    def _check_metrics(self, client: Client, facts: JobFacts) -> list[str]:
        points = {(point.kind, point.step): point for point in query_metrics(client, facts.name)}
        problems = _lost(facts.name, "the metric of (kind, step)", facts.points, points)
        problems += [
            f"{facts.name}: the metric of (kind, step) {key} went back to an older one"
            for key in facts.points.keys() & points.keys()
            if points[key].sequence < facts.points[key].sequence
        ]
        problems += self.saw_points(facts.name, points.values())
        steps = sorted(step for kind, step in points if kind == METRIC_KIND_TRAINING)
        first = facts.first_step
        if steps != list(range(first, first + len(steps))):
            problems.append(f"{facts.name}: its training metrics have a gap, {_gaps(steps, first)}")
        return problems

    def _check_checkpoints(self, client: Client, facts: JobFacts) -> list[str]:
        listed = list_checkpoints(client, facts.name)
        steps = [checkpoint.step for checkpoint in listed]
        problems = self.saw_checkpoints(facts.name, listed)
        if steps != sorted(set(steps)):
            problems.append(f"{facts.name}: checkpoints out of order or twice, {steps}")
        kept = set(facts.checkpoints) if facts.keeps_all else set(facts.pinned)
        kept |= {_newest(facts.checkpoints.values()), _best(facts.checkpoints.values())} - {""}
        return problems + _lost(facts.name, "checkpoint", kept, {each.name for each in listed})


def _lost(job: str, what: str, known: Iterable[object], present: Container[object]) -> list[str]:
    lost = [key for key in known if key not in present]
    return [f"{job}: {what} {lost[:5]} was seen and is lost"] if lost else []


def _gaps(steps: list[int], first: int) -> str:
    missing = sorted(set(range(first, steps[-1] + 1)) - set(steps))
    return f"{len(missing)} missing of {first} to {steps[-1]}, the first {missing[:3]}"


def _contents(registered: ActivationSet) -> ActivationSet:
    """Without what each verification changes."""
    contents = ActivationSet()
    contents.CopyFrom(registered)
    contents.ClearField("verify_time")
    contents.ClearField("revision")
    return contents


def _newest(checkpoints: Iterable[Checkpoint]) -> str:
    """Empty without any."""
    return max((each.name for each in checkpoints), default="")


def _best(checkpoints: Iterable[Checkpoint]) -> str:
    """By FVU, of equal ones the later; empty without any."""
    evaluated = [each for each in checkpoints if each.HasField("fvu")]
    return min(evaluated, key=lambda each: (each.fvu, -each.step)).name if evaluated else ""


def _state_problems(facts: JobFacts, revision: int, state: int) -> list[str]:
    known = facts.states.setdefault(revision, state)
    if known == state:
        return []
    return [f"{facts.name} was {state_name(known)} and {state_name(state)} at revision {revision}"]


def _point_problems(known: MetricPoint, point: MetricPoint) -> list[str]:
    older, newer = sorted((known, point), key=lambda each: each.sequence)
    what = f"the metric of step {point.step}, kind {point.kind},"
    if newer.attempt < older.attempt:
        return [f"{what} of attempt {older.attempt} gave way to that of {newer.attempt}"]
    if newer.attempt == older.attempt and newer.values != older.values:
        return [f"{what} changed within attempt {newer.attempt}"]
    return [
        f"{what} has another {name} in attempt {newer.attempt} than in {older.attempt}"
        for name in REPRODUCED_VALUES
        if older.values.get(name) != newer.values.get(name)
    ]


def _checkpoint_problems(known: Checkpoint, checkpoint: Checkpoint) -> list[str]:
    digests = {file.name: file.sha256 for file in checkpoint.files}
    fixed = [file.name for file in known.files]
    if known.attempt != checkpoint.attempt:
        fixed = list(REPRODUCED_FILES)
        # A stop at the last step leaves the weights as trained: not refitted and not evaluated yet.
        if known.HasField("fvu") != checkpoint.HasField("fvu"):
            fixed.remove("lorsa.safetensors")
    changed = [f.name for f in known.files if f.name in fixed and digests.get(f.name) != f.sha256]
    return [f"{checkpoint.name}: {', '.join(changed)} changed"] if changed else []
