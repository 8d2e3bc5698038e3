"""What the environment of lorsad holds does not lead workers and clients to other machines."""

from __future__ import annotations

import pathlib
import platform
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from finished_job import SPEC, finish_job
from service import BIN, Service

PROXY_VARIABLES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
NODES = f"{platform.node()},nodeb"
BATCH_SYSTEMS = {
    "slurm": {
        "SLURM_JOBID": "1",
        "SLURM_NODELIST": NODES,
        "SLURM_TASKS_PER_NODE": "1(x2)",
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NODELIST": NODES,
    },
    "pbs": {"PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBID": "1", "PBS_NODEFILE": "{hosts}"},
    "lsf": {"LSB_JOBID": "1", "LSB_HOSTS": "nodeb nodeb", "LSB_DJOB_HOSTFILE": "{hosts}"},
    "hostfile": {"OMPI_MCA_orte_default_hostfile": "{hosts}"},
    "parameters": {"OMPI_MCA_btl": "tcp", "OMPI_MCA_rmaps_base_mapping_policy": "ppr:1:node"},
    "launched": {
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_RANK": "3",
        "PMIX_RANK": "3",
        "PMIX_NAMESPACE": "another",
        "PMIX_SERVER_URI2": "another.1;tcp4://127.0.0.1:1",
    },
    "home": {"HOME": "{home}"},
}


class Proxy:
    """Listens like a proxy, answers nothing, and counts who came."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self._listener.accept()[0].close()
            except OSError:
                return
            self.connections += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def recording_proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    try:
        yield proxy
    finally:
        proxy.close()


def dead_proxy() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def set_proxy(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, url)
        monkeypatch.setenv(name.upper(), url)


def run_job_through_a_wrapper(folder: pathlib.Path) -> None:
    """The wrapper's worker inherits all of lorsad's environment."""
    wrapper = folder / "wrapper"
    worker = f"{BIN / 'lorsa-worker'} --bootstrap=- --scratch={folder / 'scratch'}"
    wrapper.write_text(f"#!/bin/sh\nexec {worker}\n")
    wrapper.chmod(0o755)
    service = Service(folder)
    with service:
        service.add_set()
    service.flags = ("--worker-wrapper", str(wrapper), "--worker-endpoint", service.listen)
    with service:
        finish_job(service)


@pytest.mark.parametrize("dead", [True, False], ids=["dead", "recording"])
def test_proxies_for_the_web_are_not_asked(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, dead: bool
) -> None:
    """A job used to fail after 185 s, and a tunnelling proxy got its attempt's token."""
    with recording_proxy() as proxy:
        set_proxy(monkeypatch, dead_proxy() if dead else proxy.url)
        run_job_through_a_wrapper(tmp_path)
        assert proxy.connections == 0


@pytest.mark.parametrize("system", BATCH_SYSTEMS)
def test_ranks_stay_on_this_machine(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """`ranks: 2` used to go to the hosts of an allocation or of a user's hostfile, or to die."""
    hosts, home = tmp_path / "hosts", tmp_path / "home"
    hosts.write_text("nodeb slots=2\n")
    (home / ".openmpi").mkdir(parents=True)
    (home / ".openmpi/mca-params.conf").write_text(f"orte_default_hostfile = {hosts}\n")
    for name, value in BATCH_SYSTEMS[system].items():
        monkeypatch.setenv(name, value.format(hosts=hosts, home=home))
    with Service(tmp_path, "--cpu-slots", "2") as service:
        service.add_set()
        finish_job(service, SPEC | {"ranks": 2})
        assert service.job("done")["attempt"] == 1


def test_a_single_worker_is_no_rank_of_the_launcher_of_lorsad(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in BATCH_SYSTEMS["launched"].items():
        monkeypatch.setenv(name, value)
    with Service(tmp_path) as service:
        service.add_set()
        finish_job(service)
        assert service.job("done")["attempt"] == 1
