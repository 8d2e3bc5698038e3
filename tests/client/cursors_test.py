"""What cursors take from a stream and when it is over, without a server."""

from __future__ import annotations

from lorsa.client.cursors import JobCursor, LogCursor
from lorsa.v1 import job_pb2, job_service_pb2

QUEUED, RUNNING = job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING
FAILED, SUCCEEDED = job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_SUCCEEDED


def feed(cursor: JobCursor, *responses: job_service_pb2.WatchJobResponse) -> list[int]:
    """Revisions of the events that come out."""
    items = [item for response in responses for item in cursor.handle(response)]
    return [each.revision for each in items if isinstance(each, job_pb2.JobEvent)]


def job(revision: int, state: int) -> job_service_pb2.WatchJobResponse:
    return job_service_pb2.WatchJobResponse(
        job=job_pb2.Job(revision=revision, state=state)  # type: ignore[arg-type]
    )


def event(revision: int, state: int) -> job_service_pb2.WatchJobResponse:
    return job_service_pb2.WatchJobResponse(
        event=job_pb2.JobEvent(revision=revision, to_state=state)  # type: ignore[arg-type]
    )


def test_a_failure_that_was_retried_is_not_the_end_of_a_watch() -> None:
    """It used to be: a watch from the beginning stopped at the first FAILED."""
    cursor = JobCursor("jobs/a", 0)
    assert feed(cursor, job(4, RUNNING), event(1, QUEUED), event(2, FAILED)) == [1, 2]
    assert not cursor.ended
    assert feed(cursor, event(3, QUEUED), event(4, RUNNING), event(5, SUCCEEDED)) == [3, 4, 5]
    assert cursor.ended


def test_a_job_that_was_retried_between_two_connections_is_watched_on() -> None:
    cursor = JobCursor("jobs/a", 0)
    assert feed(cursor, job(1, RUNNING), event(1, RUNNING)) == [1]
    assert cursor.request().after_revision == 1
    assert feed(cursor, job(3, QUEUED), event(2, FAILED)) == [2]
    assert not cursor.ended
    assert feed(cursor, job(4, SUCCEEDED), event(3, QUEUED), event(4, SUCCEEDED)) == [3, 4]
    assert cursor.ended


def test_a_watch_that_knows_all_events_ends_with_the_job() -> None:
    cursor = JobCursor("jobs/a", 7)
    assert feed(cursor, job(7, FAILED)) == []
    assert cursor.ended


def test_logs_go_on_where_the_last_piece_ended() -> None:
    cursor = LogCursor("jobs/a", follow=True)
    assert not cursor.request().HasField("start")
    end = job_service_pb2.LogPosition(attempt=2, offset=8)
    pieces = cursor.handle(job_service_pb2.ReadLogsResponse(attempt=2, text="one\ntwo\n", end=end))
    assert list(pieces) == ["one\ntwo\n"]
    assert cursor.request() == job_service_pb2.ReadLogsRequest(
        name="jobs/a", follow=True, start=end
    )
