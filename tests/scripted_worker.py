"""A worker that says what a test wants it to, over the real RPC."""

from __future__ import annotations

import os
import pathlib
import queue
import threading
from typing import Any

import grpc
from google.protobuf import text_format
from lorsa.v1.job_pb2 import JobProgress
from lorsa.v1.worker_service_pb2 import (
    COMMAND_CANCEL,
    Heartbeat,
    WorkerBootstrap,
    WorkerHello,
    WorkerMessage,
    WorkerOutcome,
)
from lorsa.v1.worker_service_pb2_grpc import WorkerServiceStub
from lorsa.worker.session import PROTOCOL
from service import PATIENCE, Service, wait_for

# In the place of lorsa-worker: a process that does nothing, and can be found by its command line.
IDLE = '#!/bin/bash\nexec -a "idle --bootstrap $2" sleep 600\n'


def idle_worker(folder: pathlib.Path) -> pathlib.Path:
    """The program for lorsad's --worker-binary."""
    program = folder / "idle_worker"
    program.write_text(IDLE)
    program.chmod(0o755)
    return program


class ScriptedWorker:
    """Attempt `attempt` of a job, whose process idles. Use `with`."""

    protocol = PROTOCOL

    def __init__(self, service: Service, job_id: str, attempt: int = 1) -> None:
        path = service.data / f"jobs/{job_id}/attempts/{attempt:04}/bootstrap.textproto"
        wait_for("the bootstrap file", path.exists)
        bootstrap = text_format.Parse(path.read_text(), WorkerBootstrap())
        self._channel = grpc.insecure_channel(
            service.listen, [("grpc.use_local_subchannel_pool", 1)]
        )
        self._was_cancelled = threading.Event()
        self._was_recorded = False
        self._said: queue.SimpleQueue[WorkerMessage | None] = queue.SimpleQueue()
        self._session: Any = WorkerServiceStub(self._channel).Session(
            iter(self._said.get, None),
            metadata=[("authorization", f"Bearer {bootstrap.token}")],
            timeout=PATIENCE,
        )

    def __enter__(self) -> ScriptedWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self._said.put(None)
        self._session.cancel()
        self._channel.close()

    def say_hello(self) -> None:
        """The job is RUNNING when this returns."""
        boot_id = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        hello = WorkerHello(boot_id=boot_id, pid=os.getpid(), start_ticks=1, protocol=self.protocol)
        self._said.put(WorkerMessage(hello=hello))
        assert next(self._session).HasField("welcome")

    def say_heartbeat(self, step: int) -> None:
        self._said.put(WorkerMessage(heartbeat=Heartbeat(progress=JobProgress(step=step))))

    def finish_after(self, seconds: float) -> int:
        """Ends the run then, or at once when it is told to cancel; the outcome that the server has
        recorded.
        """
        reader = threading.Thread(target=self._read)
        reader.start()
        self._was_cancelled.wait(seconds)
        kind = (
            WorkerOutcome.KIND_CANCELLED
            if self._was_cancelled.is_set()
            else WorkerOutcome.KIND_SUCCEEDED
        )
        self._said.put(WorkerMessage(outcome=WorkerOutcome(kind=kind)))
        reader.join()
        assert self._was_recorded
        return int(kind)

    def _read(self) -> None:
        for answer in self._session:
            if answer.HasField("command") and answer.command == COMMAND_CANCEL:
                self._was_cancelled.set()
            if answer.HasField("outcome_recorded"):
                self._was_recorded = True
                return
