"""Cycles of load, fault and check on one service, from one seed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
import signal
import time

import data_folder
import obstacles
from actions import VARIANTS, Actions
from clock import ShiftedClock
from health import wait_until_serving
from history import state_name
from load import OUTAGE, Load
from lorsa.client import Client
from lorsa.client.errors import AbortedError
from lorsa.v1.activation_service_pb2 import (
    ACTIVATION_SET_STATE_QUARANTINED,
    ACTIVATION_SET_STATE_READY,
    QuarantineActivationSetRequest,
    VerifyActivationSetRequest,
)
from old_catalog import make_version_1
from oracle import Oracle
from reading import list_checkpoints, list_jobs
from service import BIN, Service, run_lorsad, wait_for
from synthetic_set import write_set

LONGEST_LOAD = 2.5  # seconds before the fault, and half of it after
# A worker that the server gave up is given this long to be gone: the grace of a cancellation (30 s)
# and the silence after which a worker counts as lost (60 s), of server/jobs/job_environment.h.
WORKER_PATIENCE = 120.0
LONGEST_OBSTACLE = 4.0  # seconds that something stands in the server's way
LONGEST_FAILED_START = 30.0  # seconds
FAULTS = {
    "kill_server": 6,
    "kill_worker": 4,
    "kill_server_and_workers": 4,
    "kill_server_twice": 2,
    "drain": 3,
    "stall_worker": 1,
    "fail_to_start": 2,
    "remove_worker_program": 2,
    "use_up_descriptors": 2,
    "hold_catalog": 2,
    "quarantine_during_verification": 2,
    "restore": 2,
    "step_clock": 2,
    "downgrade": 2,
}


class Campaign:
    """One data folder through many faults. `seed` decides what is done in each cycle."""

    def __init__(self, folder: pathlib.Path, seed: int) -> None:
        self.seed = seed
        self.folder = folder
        # Without a reserve, so that small disks can be filled to their last byte.
        flags = ("--max-running-jobs", "2", "--disk-reserve-bytes", "0")
        self._worker_program = folder / "lorsa-worker"
        self._worker_program.symlink_to(BIN / "lorsa-worker")
        self._clock = ShiftedClock(folder)
        self.service = Service(
            folder,
            *flags,
            "--worker-binary",
            str(self._worker_program),
            environment=self._clock.environment,
        )
        self.oracle = Oracle()
        self._actions = Actions(self.oracle, folder)
        write_set(folder / "to_upload", sequences=140, seed=1)
        self.service.start()
        self.service.add_set()

    def close(self) -> None:
        self.service.close()

    def load(self, name: str, resources_may_run_out: bool = False) -> Load:
        """Begins."""
        seed = f"{self.seed}/{name}"
        return Load(self.service.listen, self._actions, seed, resources_may_run_out)

    def cycle(self, number: int) -> None:
        """AssertionError with all that is wrong."""
        chance = random.Random(f"{self.seed}/{number}")
        (fault,) = chance.choices(list(FAULTS), weights=list(FAULTS.values()))
        load = self.load(str(number), resources_may_run_out=fault == "use_up_descriptors")
        try:
            time.sleep(chance.uniform(0, LONGEST_LOAD))
            problems = getattr(self, f"_{fault}")(chance)
            wait_until_serving(self.service)
            time.sleep(chance.uniform(0, LONGEST_LOAD / 2))
        finally:
            observed = load.stop()
        with self._client() as client:
            problems += observed + self.oracle.check(client)
        wait_for("stray workers to leave", self._no_stray_worker, WORKER_PATIENCE)
        self.expect_none(problems, f"cycle {number} ({fault})")

    def finish(self) -> None:
        """Every job that nobody cancelled ends well, and nothing else is left of it."""
        with self._client() as client:
            wait_for("all jobs to end", lambda: self._have_all_ended(client), 300)
            problems = self.oracle.check(client, everything=True)
            problems += self._results_that_differ(client)
            problems += _jobs_in_two_states(client)
        if (code := self.service.terminate()) != 0:
            problems.append(f"lorsad exited with {code}")
        problems += data_folder.problems_at_rest(self.service)
        self.expect_none(problems, "the end")

    def expect_none(self, problems: list[str], when: str) -> None:
        text = "\n  ".join(dict.fromkeys(problems))
        assert not problems, f"seed {self.seed}, {when}:\n  {text}"

    def _client(self) -> Client:
        return Client(self.service.listen, timeout=OUTAGE)

    # --- Faults. Each leaves a server that starts or runs. ---

    def _kill_server(self, chance: random.Random) -> list[str]:
        self.service.kill()
        time.sleep(chance.choice([0, 0, chance.uniform(0, 2)]))  # workers may end meanwhile
        self.service.start()
        return []

    def _kill_worker(self, chance: random.Random) -> list[str]:
        for pid in self.service.worker_pids():
            if chance.random() < 0.7:
                self._kill(pid)
        return []

    def _kill_server_and_workers(self, chance: random.Random) -> list[str]:
        self.service.kill()
        self._kill_worker(chance)
        self.service.start()
        return []

    def _kill_server_twice(self, chance: random.Random) -> list[str]:
        """The second time at some moment of the start."""
        self.service.kill()
        self.service.launch()
        time.sleep(chance.uniform(0, 0.2))
        return self._kill_server(chance)

    def _drain(self, chance: random.Random) -> list[str]:
        del chance
        code = self.service.terminate()
        problems = data_folder.problems_at_rest(self.service)
        self.service.start()
        return problems if code == 0 else [f"lorsad exited with {code}", *problems]

    def _stall_worker(self, chance: random.Random) -> list[str]:
        """Workers that miss a restart of the server, as on a machine that swaps."""
        pids = self.service.worker_pids()
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        self._kill_server(chance)
        time.sleep(chance.uniform(0, 2))
        for pid in pids:
            _signal(pid, signal.SIGCONT)
        return []

    def _fail_to_start(self, chance: random.Random) -> list[str]:
        """It says so soon, and leaves the workers of the server before it alone."""
        del chance
        self.service.kill()
        drained = data_folder.drained_attempts(self.service.data)
        with obstacles.taken_port(self.service.listen):
            self.service.launch()
            assert self.service.process is not None
            code = self.service.process.wait(LONGEST_FAILED_START)
        problems = ["lorsad exited with 0 though its port was taken"] if code == 0 else []
        more = data_folder.drained_attempts(self.service.data) - drained
        problems += [f"{each} was drained by a server that did not start" for each in more]
        self.service.start()
        return problems

    def _remove_worker_program(self, chance: random.Random) -> list[str]:
        """Jobs wait until it is there again."""
        with obstacles.missing(self._worker_program):
            self._kill_worker(chance)
            time.sleep(chance.uniform(1, LONGEST_OBSTACLE))
        return []

    def _use_up_descriptors(self, chance: random.Random) -> list[str]:
        assert self.service.process is not None
        with obstacles.few_descriptors(self.service.process.pid, chance.choice([0, 2, 8])):
            time.sleep(chance.uniform(1, LONGEST_OBSTACLE))
        return data_folder.abandoned_workers(self.service)

    def _hold_catalog(self, chance: random.Random) -> list[str]:
        with obstacles.held_catalog(self.service.data):
            time.sleep(chance.uniform(1, LONGEST_OBSTACLE))
        return data_folder.abandoned_workers(self.service)

    def _quarantine_during_verification(self, chance: random.Random) -> list[str]:
        """A verification does not lift a verdict that is newer than its beginning."""
        registered = [facts.set_id for facts in self.oracle.sets() if facts.registered]
        if not registered:
            return []
        set_id = chance.choice(registered)
        name = f"activationSets/{set_id}"
        with self._client() as client:
            stubs = client.stubs.activation
            request = VerifyActivationSetRequest(name=name)
            verification = client.stream(stubs.VerifyActivationSet, request, OUTAGE)
            next(verification)  # so it has begun
            verdict = QuarantineActivationSetRequest(name=name, reason="The campaign says so.")
            client.call(stubs.QuarantineActivationSet, verdict)
            with contextlib.suppress(AbortedError):  # it says that it lifts nothing
                for _ in verification:
                    pass
            states = [client.sets.get(set_id).state]
            client.sets.verify(set_id)
            states.append(client.sets.get(set_id).state)
        expected = [ACTIVATION_SET_STATE_QUARANTINED, ACTIVATION_SET_STATE_READY]
        return [] if states == expected else [f"{name} had the states {states}, not {expected}"]

    def _restore(self, chance: random.Random) -> list[str]:
        """A backup of the newest state is put in place of the catalog; workers may train on."""
        problems = self._stop(chance)
        backup = self.folder / f"backup-{chance.getrandbits(64)}.sqlite"
        data = ("--data-dir", self.service.data)
        results = [run_lorsad("backup", backup, *data)]
        for path in self.service.data.glob("catalog.sqlite*"):
            path.unlink()
        results.append(run_lorsad("restore", backup, *data))
        self.service.start()
        return problems + [result.stderr for result in results if result.returncode != 0]

    def _step_clock(self, chance: random.Random) -> list[str]:
        """The server's clock is set, ahead or back; its workers keep theirs."""
        self._clock.set_ahead(chance.choice([0, 5, 60, 3600, 10 * 24 * 3600]))
        self._kill_worker(chance)
        if chance.random() < 0.3:
            self._kill_server(chance)
        return data_folder.abandoned_workers(self.service)

    def _downgrade(self, chance: random.Random) -> list[str]:
        """A copy of the data gets the catalog of an older lorsad, which knows none of its jobs."""
        problems = self._stop(chance)
        self._kill_workers()  # they would go on writing
        copy = self.folder / f"downgraded-{chance.getrandbits(64)}"
        shutil.copytree(
            self.service.data,
            copy,
            copy_function=os.link,
            ignore=lambda folder, names: [n for n in names if n.startswith("catalog.sqlite")],
        )
        (old := self.folder / f"{copy.name}-catalog").mkdir()
        before = data_folder.inodes(copy)
        assert before or not self.oracle.jobs()
        result = run_lorsad("restore", "--set-aside", make_version_1(old), "--data-dir", copy)
        problems += [result.stderr] if result.returncode != 0 else []
        gone = before.keys() - data_folder.inodes(copy).keys()
        problems += [f"{before[inode]} is gone" for inode in gone]
        jobs = copy / "jobs"
        problems += [f"{path} is not set aside" for path in jobs.iterdir() if path.name != "old"]
        shutil.rmtree(copy)
        self.service.start()
        return problems

    def _stop(self, chance: random.Random) -> list[str]:
        if chance.random() < 0.5:
            self.service.kill()
            return []
        code = self.service.terminate()
        return [] if code == 0 else [f"lorsad exited with {code}"]

    def _kill_workers(self) -> None:
        """All of them, while no server starts others."""

        def none_is_left() -> bool:
            for pid in self.service.worker_pids():
                self._kill(pid)
            return not self.service.worker_pids()

        wait_for("workers to end", none_is_left)

    def _kill(self, pid: int) -> None:
        if (worked_on := data_folder.attempt_of_worker(pid)) is not None:
            self.oracle.killed_worker_of(f"jobs/{worked_on[0]}")
            _signal(pid, signal.SIGKILL)

    # --- Checks. ---

    def _no_stray_worker(self) -> bool:
        return not data_folder.stray_workers(self.service)

    def _have_all_ended(self, client: Client) -> bool:
        unended = [job for job in list_jobs(client) if not job.HasField("end_time")]
        for job in unended:
            if state_name(job.state) == "PAUSED":
                client.job(job.name.split("/")[1]).resume()
        return not unended

    def _results_that_differ(self, client: Client) -> list[str]:
        """A run that was disturbed ends with the bits of one that was not."""
        results: dict[str, dict[str, str]] = {}
        for facts in self.oracle.jobs():
            if facts.state == "SUCCEEDED":
                variant = facts.request.job_id.split("-")[0]
                if variant not in VARIANTS or facts.deletion_sent:
                    continue  # another run than its like
                newest = list_checkpoints(client, facts.name)[-1]
                digest = next(f.sha256 for f in newest.files if f.name == "lorsa.safetensors")
                results.setdefault(variant, {})[facts.name] = digest
        return [
            f"runs of {variant} ended with different weights: {results[variant]}"
            for variant in VARIANTS.keys() & results.keys()
            if len(set(results[variant].values())) > 1
        ]


def _jobs_in_two_states(client: Client) -> list[str]:
    """When nothing runs any more, the lists of each state share out all jobs."""
    found = [job.name for state in range(1, 11) for job in list_jobs(client, state)]
    everything = [job.name for job in list_jobs(client)]
    return [] if sorted(found) == sorted(everything) else [f"{found} are not {everything}"]


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        os.kill(pid, number)
