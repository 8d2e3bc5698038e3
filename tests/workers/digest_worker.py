"""A job kind in Python (docs/workers.md): a chain of SHA-256 digests.

Parameters: `text`, hashed `total` times over; a checkpoint each `every` steps; `seconds_per_step`,
which makes it slow. The result is the digest of the last step, in the last checkpoint.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

from lorsa.worker import Ending, Job, JobFailedError, run

FILE = "digest.txt"  # "STEP HEX"


def read_state(folder: Path | None, text: str) -> tuple[int, str]:
    """Step and digest of a checkpoint, or those before the first step."""
    if folder is None:
        return 0, text
    step, digest = (folder / FILE).read_text().split()
    return int(step), digest


def write_state(job: Job, step: int, digest: str) -> None:
    with job.checkpoint(step) as folder:
        (folder / FILE).write_text(f"{step} {digest}")


def digest_chain(job: Job) -> Ending:
    try:
        text, total = str(job.parameters["text"]), int(job.parameters["total"])
    except KeyError as error:
        raise JobFailedError(f"parameter {error} is missing", "INVALID_SPEC") from error
    every = int(job.parameters.get("every", total))
    pause = float(job.parameters.get("seconds_per_step", 0))
    step, digest = read_state(job.resume(), text)
    saved = step
    while step < total:
        digest = hashlib.sha256(digest.encode()).hexdigest()
        step += 1
        time.sleep(pause)
        left = (total - step) * pause
        job.report(step, total, "hashing", left, first_byte=(digest_byte(digest), "of 256"))
        job.log_metrics(step, {"first_byte": digest_byte(digest)})
        if step % every == 0 or step == total:
            write_state(job, step, digest)
            saved = step
        if step < total and job.stop_requested:
            if step > saved:
                write_state(job, step, digest)
            return Ending.STOPPED
    return Ending.DONE


def digest_byte(digest: str) -> int:
    return int(digest[:2], 16)


if __name__ == "__main__":
    sys.exit(run(digest_chain, program="digest 1.0", kinds=["digest"]))
