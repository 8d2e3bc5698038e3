"""The process around a job: from the bootstrap file to the outcome.

Protocol of the end, as that of lorsa-worker (trainer/worker/attempt.cc):
  1. the work has published its last checkpoint;
  2. the outcome goes to the outcome file, atomically: it counts even if no server is there;
  3. the session delivers the metrics that are left, then the outcome.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from google.protobuf import text_format

from lorsa.errors import LorsaError
from lorsa.files import read_bounded, write_atomically
from lorsa.v1.worker_service_pb2 import (
    COMMAND_CANCEL,
    COMMAND_DRAIN,
    COMMAND_PAUSE,
    WorkerBootstrap,
    WorkerOutcome,
)
from lorsa.worker.job import Ending, Job, JobFailedError
from lorsa.worker.session import RefusedError, ServerAwayError, Session

_MAX_BOOTSTRAP_BYTES = 64 << 10
_FINISH_SECONDS = 60.0
_STOPPED: dict[int, WorkerOutcome.Kind] = {
    COMMAND_PAUSE: WorkerOutcome.KIND_PAUSED,
    COMMAND_CANCEL: WorkerOutcome.KIND_CANCELLED,
    COMMAND_DRAIN: WorkerOutcome.KIND_DRAINED,
}


def run(
    work: Callable[[Job], Ending],
    *,
    program: str,
    kinds: Sequence[str],
    arguments: Sequence[str] | None = None,
) -> int:
    """Runs `work` for the attempt that lorsad launched this process for; the exit code.

    `program`: name and version, for people. `kinds`: kinds of jobs that `work` runs; the server
    refuses the worker for any other. `arguments`: default sys.argv.

    An exception of `work` ends the job as FAILED, with its traceback in the log of the job.
    """
    parser = argparse.ArgumentParser(description=f"{program}: a worker that lorsad starts")
    parser.add_argument("--bootstrap", type=Path, required=True, help="file written by lorsad")
    try:
        bootstrap = _read_bootstrap(parser.parse_args(arguments).bootstrap)
        session = Session(bootstrap, program, list(kinds))
        job = Job(session, bootstrap, session.start())
        outcome = _outcome_of(work, job, session)
    except LorsaError as error:  # RefusedError among them
        print(error, file=sys.stderr)
        return 1
    text = text_format.MessageToString(outcome)
    write_atomically(Path(bootstrap.outcome_file), text.encode())  # 2
    session.finish(outcome, _FINISH_SECONDS)  # 3
    return 0


def _read_bootstrap(path: Path) -> WorkerBootstrap:
    try:
        text = read_bounded(path, _MAX_BOOTSTRAP_BYTES).decode()
        bootstrap = WorkerBootstrap()
        text_format.Parse(text, bootstrap, allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise LorsaError(f"{path} is not a WorkerBootstrap; only lorsad writes these.") from error
    if not bootstrap.staging_folder or not bootstrap.outcome_file:
        raise LorsaError(f"{path} is for a worker on another machine; this one needs the disk.")
    Path(bootstrap.staging_folder).mkdir(parents=True, exist_ok=True)
    return bootstrap


def _outcome_of(work: Callable[[Job], Ending], job: Job, session: Session) -> WorkerOutcome:
    try:
        ending = work(job)
        if ending is Ending.DONE:
            return WorkerOutcome(kind=WorkerOutcome.KIND_SUCCEEDED)
        if (kind := _STOPPED.get(session.command)) is not None:
            return WorkerOutcome(kind=kind)
        return _failed("WORKER_ERROR", "the program stopped unasked; see the log of the job")
    except RefusedError:
        raise
    except ServerAwayError as error:  # as good as drained
        return WorkerOutcome(kind=WorkerOutcome.KIND_DRAINED, message=str(error))
    except JobFailedError as error:
        return _failed(error.reason, str(error))
    except Exception as error:
        traceback.print_exc()
        return _failed("WORKER_ERROR", f"{type(error).__name__}: {error}")


def _failed(reason: str, message: str) -> WorkerOutcome:
    return WorkerOutcome(kind=WorkerOutcome.KIND_FAILED, reason=reason, message=message)
