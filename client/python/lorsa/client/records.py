"""What the jobs and checkpoints of both clients know without asking the server."""

from __future__ import annotations

from dataclasses import dataclass

from lorsa.client.cursors import FINAL_STATES
from lorsa.v1 import checkpoint_service_pb2, job_pb2, sweep_pb2, training_spec_pb2


@dataclass(frozen=True)
class ResolvedJob:
    """What a job would run as, and what it would take."""

    spec: training_spec_pb2.TrainingSpec  # every default filled in
    memory_bytes: int  # of all its processes together, at their peak
    memory_parts: str  # what the memory is for, largest first
    disk_bytes: int  # of the checkpoints that are kept at a time
    seconds: float | None  # by jobs that ran on this server; None: there was none to go by

    @staticmethod
    def of(job: job_pb2.Job) -> ResolvedJob:
        """From the answer to CreateJob with validate_only."""
        estimate = job.estimate
        return ResolvedJob(
            spec=job.resolved_spec.training,
            memory_bytes=estimate.memory_bytes,
            memory_parts=estimate.memory_parts,
            disk_bytes=estimate.disk_bytes,
            seconds=estimate.time.ToNanoseconds() / 1e9 if estimate.HasField("time") else None,
        )


def progress_values(progress: job_pb2.JobProgress) -> dict[str, float]:
    """The values that a running job reports, by name (proto/lorsa/v1/job.proto)."""
    return {value.name: value.value for value in progress.values}


class JobRecord:
    """A job as it was when it was last asked for."""

    proto: job_pb2.Job

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.state}>"

    @property
    def name(self) -> str:
        """jobs/ID"""
        return self.proto.name

    @property
    def id(self) -> str:
        """The id that was chosen at submission."""
        return self.proto.name.removeprefix("jobs/")

    @property
    def state(self) -> str:
        """QUEUED, RUNNING, SUCCEEDED, …"""
        return str(job_pb2.JobState.Name(self.proto.state)).removeprefix("JOB_STATE_")

    @property
    def kind(self) -> str:
        """ "training", or a kind that the server's configuration names."""
        return self.proto.kind

    @property
    def labels(self) -> dict[str, str]:
        """What the job was marked with at submission."""
        return dict(self.proto.policy.labels)

    @property
    def has_ended(self) -> bool:
        """Whether the state is final."""
        return self.proto.state in FINAL_STATES


class CheckpointRecord:
    """A published checkpoint; they never change."""

    proto: checkpoint_service_pb2.Checkpoint

    def __repr__(self) -> str:
        return f"<Checkpoint {self.name}>"

    @property
    def name(self) -> str:
        """jobs/ID/checkpoints/step-000001000"""
        return self.proto.name

    @property
    def step(self) -> int:
        """Steps applied."""
        return self.proto.step

    @property
    def fvu(self) -> float | None:
        """Held-out FVU, if it was evaluated."""
        return self.proto.fvu if self.proto.HasField("fvu") else None


class SweepRecord:
    """A group of jobs as it was when it was last asked for."""

    proto: sweep_pb2.Sweep

    def __repr__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        return f"<Sweep {self.id}: {states}>"

    @property
    def name(self) -> str:
        """sweeps/ID"""
        return self.proto.name

    @property
    def id(self) -> str:
        """The id that was chosen at submission."""
        return self.proto.name.removeprefix("sweeps/")

    @property
    def states(self) -> dict[str, int]:
        """How many jobs are in which state."""
        return dict(self.proto.jobs_by_state)

    @property
    def best_fvu(self) -> float | None:
        """The lowest held-out FVU of all its jobs' checkpoints, if one was evaluated."""
        return self.proto.best_fvu if self.proto.HasField("best_fvu") else None
