"""A job that has ended calls its webhook, whatever happens to the receiver and the server."""

from __future__ import annotations

import json
import pathlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from finished_job import SPEC
from pages import code_of
from service import PATIENCE, Service, wait_for

KEY = "a key that only the server and the receiver know"


@dataclass
class Receiver:
    """Answers the first calls with `statuses`, 0 = not before it is released, and later ones with
    200; keeps what was posted."""

    statuses: list[int] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    calls: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    def serve(self) -> ThreadingHTTPServer:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                receiver.calls.append((dict(self.headers), body))
                if status == 0:
                    receiver.released.wait(PATIENCE)
                self.send_response(status or 200)
                self.send_header("Location", receiver.url + "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/hook"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    server = receiver.serve()
    yield receiver
    receiver.released.set()
    server.shutdown()


@pytest.fixture
def slow() -> Iterator[Receiver]:
    """Another, which answers no call."""
    slow = Receiver(statuses=[0] * 100)
    server = slow.serve()
    yield slow
    slow.released.set()
    server.shutdown()


@pytest.fixture
def service(tmp_path: pathlib.Path, receiver: Receiver, slow: Receiver) -> Iterator[Service]:
    (tmp_path / "key").write_text(KEY + "\n")
    config = tmp_path / "lorsad.textproto"
    hosts = "".join(f'allowed_hosts: "{each.url.split("/")[2]}" ' for each in (receiver, slow))
    config.write_text(
        f'webhooks {{ secret_file: "{tmp_path / "key"}" {hosts} timeout_seconds: 100 }}\n'
    )
    with Service(tmp_path, "--config", str(config)) as service:
        service.add_set()
        yield service


def submit(service: Service, job_id: str, url: str, ok: bool = True) -> str:
    """What the command printed."""
    arguments = ["job", "submit", json.dumps(SPEC), "--id", job_id, "--webhook", url]
    result = service.cli(*arguments, ok=ok)
    return result.stdout + result.stderr


def code_of_the_page() -> dict[str, Any]:
    """What the example of docs/webhooks.md defines."""
    names: dict[str, Any] = {}
    for code in code_of("webhooks.md", "python"):
        exec(code, names)
    return names


def test_a_notice_comes_though_the_receiver_fails_and_the_server_dies(
    service: Service, receiver: Receiver
) -> None:
    receiver.statuses = [500, 302]
    submit(service, "demo", receiver.url)
    wait_for("the first call", lambda: receiver.calls)
    service.kill()
    service.start()
    wait_for("the third call", lambda: len(receiver.calls) == 3)
    is_genuine = code_of_the_page()["is_genuine"]
    for headers, body in receiver.calls:
        signature = headers["X-Lorsa-Signature"]
        assert is_genuine(signature, body, KEY.encode())
        assert not is_genuine(signature, body + b" ", KEY.encode())
        assert not is_genuine(signature, body, b"another key")
        assert headers["Content-Type"] == "application/json"
    notice, *repetitions = (json.loads(body) for _, body in receiver.calls)
    assert repetitions == [notice, notice]  # Each writes its maps in an order of its own.
    job = service.job("demo")
    assert notice["id"] == receiver.calls[0][0]["X-Lorsa-Notice"]
    assert notice["id"].startswith(f"demo:{job['revision']}:")
    assert notice["job"]["state"] == job["state"] == "JOB_STATE_SUCCEEDED"
    assert notice["job"]["best_checkpoint"] == job["best_checkpoint"]
    assert notice["evaluation"]["step"] == "50"
    assert 0 < notice["evaluation"]["values"]["fvu"] < 1
    wait_for("the log line", lambda: "event=webhook_taken notice=demo:" in service.log.read_text())
    assert service.terminate() == 0
    assert len(receiver.calls) == 3


@pytest.mark.parametrize(
    "signature",
    ["", "t", "t=1", "v1=00", "t=,v1=", "t=now,v1=" + "0" * 64, "t=1,v1=ä" + "0" * 63, "a=b=c,,"],
)
def test_a_header_that_is_none_is_not_genuine(signature: str) -> None:
    """The page's example raised an exception, so that anybody could make a receiver fail."""
    assert code_of_the_page()["is_genuine"](signature, b"body", KEY.encode()) is False


def test_a_receiver_that_nobody_allowed_is_refused(service: Service, receiver: Receiver) -> None:
    for url in ("http://169.254.169.254/latest", receiver.url.replace("http:", "ftp:")):
        said = submit(service, "demo", url, ok=False)
        assert "policy.webhook" in said
    assert service.cli("job", "show", "demo", ok=False).returncode == 1


def test_without_configuration_there_are_no_webhooks(lorsad: Service) -> None:
    lorsad.add_set()
    assert "allows no webhooks" in submit(lorsad, "demo", "http://127.0.0.1/", ok=False)


def test_a_receiver_that_hangs_does_not_hold_the_server(
    service: Service, receiver: Receiver
) -> None:
    receiver.statuses = [0]
    submit(service, "demo", receiver.url)
    service.cli("job", "cancel", "demo")
    wait_for("the call", lambda: receiver.calls)
    assert json.loads(receiver.calls[0][1])["job"]["state"] == "JOB_STATE_CANCELLED"
    began = time.monotonic()
    assert service.terminate() == 0
    assert time.monotonic() - began < 30, "a call may take 100 s"


def test_a_slow_receiver_delays_no_other(
    service: Service, receiver: Receiver, slow: Receiver
) -> None:
    """Each call to it took 100 s, and those to the others came after."""
    for i in range(4):
        submit(service, f"slow-{i}", slow.url)
        service.cli("job", "cancel", f"slow-{i}")
    wait_for("the slow calls", lambda: len(slow.calls) == 2)
    for i in range(3):
        submit(service, f"fast-{i}", receiver.url)
        service.cli("job", "cancel", f"fast-{i}")
        ended = time.monotonic()
        wait_for("the call", lambda i=i: len(receiver.calls) > i, patience=30)
        # The sender looks once a second; the rest is for a busy machine.
        assert time.monotonic() - ended < 5
    assert len(slow.calls) == 2
