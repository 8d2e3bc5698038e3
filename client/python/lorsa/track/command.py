"""`lorsa-track`: the command line."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lorsa.errors import LorsaError

_EXAMPLE = """\
examples:
  lorsa-track demo --to tensorboard:runs
  lorsa-track demo --to mlflow:sqlite:///mlflow.db --checkpoints best
  WANDB_MODE=offline lorsa-track demo --to wandb

Sends the job's history and then its live metrics until it has ended. The same command again goes on
where it stopped: what the tracker has is not sent twice.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        _track(parsed)
    except (LorsaError, OSError) as error:
        print(f"lorsa-track: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lorsa-track: interrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    return 0


def _track(parsed: argparse.Namespace) -> None:
    from lorsa.client import Client
    from lorsa.track.follow import send_checkpoints, send_metrics
    from lorsa.track.sink import open_sink

    token = parsed.token_file and parsed.token_file.read_text().strip()
    with Client(parsed.server, token=token, tls=parsed.tls) as client:
        job = client.job(parsed.job.removeprefix("jobs/"))
        sink = open_sink(parsed.to, job)
        if parsed.checkpoints != "none" and not sink.keeps_files:
            sink.close(job.state)
            raise LorsaError(f"{parsed.to} keeps no files: leave --checkpoints out.")
        state = "RUNNING"  # until everything has been sent
        try:
            count = send_metrics(job, sink)
            with tempfile.TemporaryDirectory() as folder:
                send_checkpoints(job, sink, parsed.checkpoints, Path(folder))
            state = job.state
        finally:
            sink.close(state)
        print(f"sent {count} points of {job.name} ({job.state}) to {parsed.to}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lorsa-track",
        description="Sends a job's metrics, configuration and checkpoints to a tracker.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("job", metavar="JOB", help="id of the job")
    add(
        "--to",
        required=True,
        metavar="TRACKER",
        help="tensorboard:DIR, mlflow:URI, wandb[:PROJECT]",
    )
    add(
        "--checkpoints",
        choices=("none", "best", "all"),
        default="none",
        help="which to add as artifacts once the job has ended (default none)",
    )
    add(
        "--server",
        default=os.environ.get("LORSA_SERVER", "127.0.0.1:7070"),
        metavar="HOST:PORT",
        help="lorsad (default $LORSA_SERVER or 127.0.0.1:7070)",
    )
    add("--token-file", type=Path, metavar="FILE", help="file that holds the token")
    add("--tls", nargs="?", const=True, default=False, metavar="CERTIFICATES", help="speak TLS")
    return parser


if __name__ == "__main__":
    sys.exit(main())
