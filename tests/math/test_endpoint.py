"""The tool through a service that speaks SandboxFusion's protocol: a local server, run for real."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import whale_math.python.endpoint as endpoint_module
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_math.config import Config, PythonConfig
from whale_math.domain import MathDomain
from whale_math.python.endpoint import EndpointError, EndpointPython
from whale_math.python.result import Result


class Service(ThreadingHTTPServer):
    """Runs programs as such services do, or answers what it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, Any]] = []
        self.replies: list[tuple[int, bytes]] = []  # in place of the program's
        self.trickle = 0.0  # seconds from byte to byte
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({"path": self.path, **body})
        status, data = self.server.replies.pop(0) if self.server.replies else (200, _run(body))
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for byte in data if self.server.trickle else ():
            self.wfile.write(bytes([byte]))
            if self.server.ended.wait(self.server.trickle):
                return
        self.wfile.write(data if not self.server.trickle else b"")


def _run(body: dict[str, Any]) -> bytes:
    """Run a program; say ``Finished`` whatever its exit status is."""
    command = [sys.executable, "-I", "-S", "-c", body["code"]]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=body["run_timeout"], check=False
        )
    except subprocess.TimeoutExpired:
        return _reply(status="TimeLimitExceeded", return_code=None, stdout=None, stderr=None)
    return _reply(
        status="Finished", return_code=done.returncode, stdout=done.stdout, stderr=done.stderr
    )


def _reply(**run: Any) -> bytes:
    return json.dumps({"status": "Success", "message": "", "run_result": run}).encode()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(endpoint_module, "WAIT_SECONDS", 0.01)
    server = Service()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.ended.set()
    server.shutdown()
    thread.join()
    server.server_close()


def run(service: Service, code: str, *, show_last: bool = False, **settings: Any) -> Result:
    tool = EndpointPython(PythonConfig(url=service.url + "/", **settings))
    return asyncio.run(tool.run(code, show_last))


def test_programs_run_as_in_the_jail(service: Service):
    assert run(service, "x = 42\nx", show_last=True) == Result("42\n", "", 0, "finished")
    assert run(service, "x = 42\nx").stdout == ""
    failed = run(service, "print(1)\n1 / 0")
    assert (failed.stdout, failed.exit_status, failed.status) == ("1\n", 1, "finished")
    assert failed.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert run(service, "raise SystemExit(3)").exit_status == 3
    assert run(service, "import os\nos.kill(os.getpid(), 9)").status == "died"
    assert run(service, "import time\ntime.sleep(9)", wall_seconds=0.5).status == "timeout"
    long = run(service, "print('x' * 100)", output=10)
    assert (long.stdout, long.exit_status, long.status) == ("x" * 10, None, "output")
    asked = service.asked[0]
    assert asked["path"] == "/run_code" and asked["language"] == "python"
    assert (asked["run_timeout"], asked["memory_limit_MB"]) == (10.0, 512)


def test_a_passing_fault_is_tried_again_and_a_lasting_one_is_the_environments(service: Service):
    service.replies = [(503, b""), (200, b"nonsense")]
    assert run(service, "print(1)").stdout == "1\n" and len(service.asked) == 3
    for reply in (b"nonsense", b"[]", b"{}", b'{"run_result": 1}', _reply(status="Finished")):
        service.replies = [(200, reply)] * 3
        with pytest.raises(EndpointError):
            run(service, "print(1)")
    service.replies = [(500, b"")] * 3
    with pytest.raises(EndpointError, match="500"):
        run(service, "print(1)")


def test_all_tries_together_have_a_deadline(service: Service, monkeypatch: pytest.MonkeyPatch):
    """A byte now and then keeps a socket's own timeout from ever running out."""
    monkeypatch.setattr(endpoint_module, "SLACK_SECONDS", 0.3)
    service.trickle = 0.1
    began = time.monotonic()
    with pytest.raises(EndpointError, match=r"no answer|too slow"):
        run(service, "print(1)", wall_seconds=0.2)
    assert time.monotonic() - began < 4 and len(service.asked) == 2  # 2 × 0.5 s, not three tries


def test_a_program_that_floods_the_service_has_failed_and_is_no_fault_of_it(service: Service):
    tool = EndpointPython(PythonConfig(url=service.url))
    made = asyncio.run(tool.run("print('x' * (17 << 20))", False))
    assert (made.status, made.exit_status) == ("output", None) and len(service.asked) == 1


def test_a_compile_error_told_without_a_return_code_is_the_programs(service: Service):
    service.replies = [(200, _reply(status="Error", return_code=None, stdout="", stderr="bad"))]
    assert run(service, "x =") == Result("", "bad", None, "died")


def probe(url: str) -> None:
    domain = MathDomain(Config(python=PythonConfig(url=url)), Setup(seed=0))

    async def work() -> None:
        try:
            await domain.probe()
        finally:
            await domain.close()

    asyncio.run(work())


def test_probing(service: Service):
    probe(service.url)
    service.replies = [(200, _reply(status="Finished", return_code=0, stdout="43\n", stderr=""))]
    with pytest.raises(InputError, match="this runs no Python"):
        probe(service.url)
    service.replies = [(404, b"")]
    with pytest.raises(InputError, match="404"):
        probe(service.url)
    for url in ("http://127.0.0.1:9", "nonsense", "http://[", "ftp://127.0.0.1:9"):
        with pytest.raises(InputError) as caught:
            probe(url)
        assert f"domain.python.url={url}: " in str(caught.value)
        assert "\n" not in str(caught.value)


def test_the_jail_is_probed_too():
    domain = MathDomain(Config(), Setup(seed=0))
    asyncio.run(domain.probe())
