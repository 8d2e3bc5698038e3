"""How many published checkpoints a restore in place loses. See bench/restore_in_place.sh."""

from __future__ import annotations

import argparse
import hashlib
import pathlib
import tempfile

from service import Service, run_lorsad, wait_for

SPEC = (
    'activation_set: "set" n_ov_heads: 64 n_qk_heads: 8 top_k: 8 threads: 1 '
    "sequences_per_step: 4 checkpoint_interval_tokens: 768 "
    "keep_checkpoints: {keep} tokens: {tokens}"
)

Published = dict[str, dict[str, str]]  # name of a checkpoint → its files and their sha256


def published(service: Service) -> Published:
    """All checkpoints of all jobs."""
    found: Published = {}
    for job in service.json("job", "list"):
        for checkpoint in service.checkpoints(job["name"].removeprefix("jobs/")):
            files = checkpoint["files"]
            found[checkpoint["name"]] = {file["name"]: file["sha256"] for file in files}
    return found


def run(*arguments: str | pathlib.Path) -> str:
    """lorsad's output; an error ends the bench."""
    result = run_lorsad(*arguments)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return result.stdout


def is_whole(service: Service, name: str, files: dict[str, str], out: pathlib.Path) -> bool:
    """Whether the checkpoint downloads with these sha256."""
    _, job, _, checkpoint = name.split("/")
    step = int(checkpoint.removeprefix("step-"))
    target = out / job / checkpoint
    done = service.cli("checkpoint", "download", f"{job}@{step}", "--out", target, ok=False)
    return done.returncode == 0 and all(
        hashlib.sha256((target / file).read_bytes()).hexdigest() == sha256
        for file, sha256 in files.items()
    )


def train_past_a_backup(service: Service, spec: str) -> pathlib.Path:
    """Runs one job to its end, with a backup in the middle, and another after it; the backup."""
    service.add_set()
    service.cli("job", "submit", spec, "--id", "j")
    wait_for("two checkpoints", lambda: len(service.checkpoints("j")) >= 2)
    backup = pathlib.Path(run("backup", service.folder, "--data-dir", service.data).strip())
    known = len(service.checkpoints("j"))
    service.wait_for_state("j", "SUCCEEDED")
    service.cli("job", "submit", spec, "--id", "later", "--watch")
    print(f"backup_after_checkpoints {known}")
    return backup


def restore(service: Service, backup: pathlib.Path) -> None:
    """As docs/operations.md says."""
    service.terminate()
    for path in service.data.glob("catalog.sqlite*"):
        path.rename(service.folder / f"away-{path.name}")
    print(run("restore", backup, "--data-dir", service.data), end="")
    service.start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=61_440, help="of each job")
    parser.add_argument("--keep", type=int, default=100, help="checkpoints that a job keeps")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Service(pathlib.Path(folder)) as service:
        backup = train_past_a_backup(service, SPEC.format(keep=options.keep, tokens=options.tokens))
        before = published(service)
        restore(service, backup)
        after = published(service)
        lost = [
            name
            for name, files in before.items()
            if after.get(name) != files
            or not is_whole(service, name, files, service.folder / "downloads")
        ]
        print(f"published {len(before)}")
        for name in lost:
            print(f"lost: {name}")
        print(f"lost {len(lost)}")


if __name__ == "__main__":
    main()
