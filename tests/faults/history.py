"""A job's events and the one chain of legal states that they must be."""

from __future__ import annotations

from lorsa.client import Client
from lorsa.v1.job_pb2 import Job, JobEvent, JobState
from lorsa.v1.job_service_pb2 import WatchJobRequest
from reading import for_a_while

# The states that may follow each: docs and proto/lorsa/v1/job.proto, written down once more so that
# the table of the server is not its own judge.
NEXT = {
    "": "QUEUED",
    "QUEUED": "STARTING CANCELLED FAILED",
    "STARTING": "RUNNING RECOVERING QUEUED FAILED CANCELLING",
    "RUNNING": "SUCCEEDED FAILED PAUSING CANCELLING RECOVERING QUEUED",
    "PAUSING": "PAUSED SUCCEEDED FAILED CANCELLING",
    "PAUSED": "QUEUED CANCELLED FAILED",
    "RECOVERING": "STARTING CANCELLED FAILED",
    "CANCELLING": "CANCELLED SUCCEEDED FAILED",
    "FAILED": "QUEUED",
    "SUCCEEDED": "",
    "CANCELLED": "",
}
# Reasons of events that follow no edge: nothing ran here, or what came between is not known.
NO_EDGE = ("IMPORTED", "ADOPTED")
LONGEST_WAIT = 20.0  # seconds for events that are there already
FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
WITH_WORKER = ("STARTING", "RUNNING", "PAUSING", "CANCELLING")


def state_name(state: int) -> str:
    """QUEUED; empty for UNSPECIFIED."""
    name = str(JobState.Name(state)).removeprefix("JOB_STATE_")  # type: ignore[arg-type]
    return "" if name == "UNSPECIFIED" else name


def read_history(client: Client, name: str) -> tuple[Job, list[JobEvent]]:
    """The job as it is at some revision, and the events up to that one; fewer if the last ones do
    not come.
    """
    job, events = Job(), list[JobEvent]()
    method, request = client.stubs.job.WatchJob, WatchJobRequest(name=name)
    for response in for_a_while(client, method, request, LONGEST_WAIT):
        if response.HasField("job"):
            job = response.job
        elif response.HasField("event"):
            events.append(response.event)
        if events and events[-1].revision >= job.revision:
            break
    return job, events


def history_problems(job: Job, events: list[JobEvent]) -> list[str]:
    """What keeps the events from being one chain of legal states that ends in the job's."""
    revisions = [event.revision for event in events]
    if revisions != list(range(1, job.revision + 1)):
        return [f"{job.name}: its events are {revisions}, its revision {job.revision}"]
    problems = []
    state, attempt = "", 0
    for event in events:
        before, after = state_name(event.from_state), state_name(event.to_state)
        where = f"{job.name}, event {event.revision}"
        if before != state and event.revision > 1:
            problems.append(f"{where}: it was {state}, the event says {before}")
        is_legal = event.reason in NO_EDGE or after in NEXT[state].split()
        if after != state and not is_legal:
            problems.append(f"{where}: {state or 'nothing'} became {after}")
        if event.attempt < attempt:
            problems.append(f"{where}: attempt {attempt} was followed by {event.attempt}")
        state, attempt = after, event.attempt
    if state != state_name(job.state):
        problems.append(f"{job.name} is {state_name(job.state)}, its events end in {state}")
    if attempt != job.attempt:
        problems.append(f"{job.name}: attempt {job.attempt}, its events end in {attempt}")
    return problems
