"""Worker programs in Python: jobs of a kind that lorsad's configuration names (docs/workers.md).

def count(job: Job) -> Ending:
    for step in range(1, int(job.parameters["total"]) + 1):
        ...
        if job.stop_requested:
            return Ending.STOPPED
    return Ending.DONE

if __name__ == "__main__":
    sys.exit(run(count, program="count 1.0", kinds=["count"]))
"""

from lorsa.worker.job import Ending, Job, JobFailedError
from lorsa.worker.program import run
from lorsa.worker.session import RefusedError, ServerAwayError

__all__ = ["Ending", "Job", "JobFailedError", "RefusedError", "ServerAwayError", "run"]
