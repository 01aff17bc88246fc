"""Programs in processes of their own that need not import everything first.

A server (``warm_server``) imports what a run needs, once for each process of pytest, and forks for
every program that a test starts. The program is a process like any other (its own id, signals,
streams, environment, working directory, exit status), but begins some seconds of work later. What
libraries read from the environment while they are imported is that of the tests. Each hash seed has
a server of its own; where a test chooses none, it is 0. Installed programs, started as users do,
are run by the fixture ``smoke_run`` and by ``tests/packaging``.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

WHALE = "import sys\nfrom whale_core.cli.main import main\nsys.exit(main())\n"
SERVER = Path(__file__).with_name("warm_server.py")
CLIENT = Path(__file__).with_name("warm_client.py")
PROGRAMS = Path(sys.executable).parent


class Program:
    """A started program, with what the tests use of ``subprocess.Popen``."""

    def __init__(self, end: socket.socket, streams: Sequence[IO[str] | None]) -> None:
        """Take over the socket on which come the process id and, later, the exit status."""
        self._end = end
        self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self.pid = self._receive()

    def _receive(self) -> int:
        data = self._end.recv(8)
        assert len(data) == 8, "the server that starts programs has ended"
        return int.from_bytes(data, "little", signed=True)

    def poll(self) -> int | None:
        """Return the exit status (minus the signal's number), None while the program runs."""
        with contextlib.suppress(TimeoutError):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raise ``TimeoutError`` if it takes longer than ``timeout`` seconds."""
        if self.returncode is None:
            self._end.settimeout(timeout)
            try:
                self.returncode = self._receive()
            except BlockingIOError:
                raise TimeoutError from None
            self._end.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read what the pipes bring until they end, wait, and return both texts ("": no pipe)."""
        texts = ["", ""]

        def read(index: int, stream: IO[str]) -> None:
            with stream:
                texts[index] = stream.read()

        threads = [
            threading.Thread(target=read, args=(index, stream), daemon=True)
            for index, stream in enumerate((self.stdout, self.stderr))
            if stream is not None and not stream.closed
        ]
        for thread in threads:
            thread.start()
        self.wait(timeout)
        for thread in threads:
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError("the program has ended, but its output is still open")
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start(
    arguments: Sequence[str],
    *,
    code: str = WHALE,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    start_new_session: bool = False,
) -> Program:
    """Start ``whale`` with ``arguments``, or ``python -c code`` with them.

    The options are those of ``Popen``; streams are text, and there is no input.
    """
    environment = dict(os.environ if env is None else env)
    streams: list[IO[str] | None] = []
    with contextlib.ExitStack() as opened:
        nothing = opened.enter_context(open(os.devnull, "r+b", buffering=0)).fileno()
        theirs = [nothing]
        for number, wanted in ((1, stdout), (2, stderr)):
            stream = None
            if wanted == subprocess.PIPE:
                ours, descriptor = os.pipe()
                opened.callback(os.close, descriptor)
                stream = os.fdopen(ours, encoding="utf-8")
            elif wanted == subprocess.STDOUT:
                descriptor = theirs[1]
            else:
                descriptor = nothing if wanted == subprocess.DEVNULL else number
            theirs.append(descriptor)
            streams.append(stream)
        order = {
            "argv": ["whale" if code == WHALE else "-c", *arguments],
            "path": str(PROGRAMS) if code == WHALE else "",
            "site": "",
            "code": code,
            "env": environment,
            "cwd": str(cwd or Path.cwd()),
            "new_session": start_new_session,
        }
        mine, servers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        opened.enter_context(servers)
        control = server(environment.get("PYTHONHASHSEED", "0"))
        socket.send_fds(control, [json.dumps(order).encode()], [*theirs, servers.fileno()])
    return Program(mine, streams)


def run(
    arguments: Sequence[str], *, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run such a program to its end with its output captured, as ``subprocess.run`` would."""
    program = start(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    try:
        output, errors = program.communicate(timeout)
    finally:
        program.kill()
    return subprocess.CompletedProcess(list(arguments), program.wait(), output, errors)


@cache
def server(hash_seed: str = "0", python: str = sys.executable) -> socket.socket:
    """Start a server and return the socket that takes its orders; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with theirs:
        process = subprocess.Popen(
            [python, SERVER, str(theirs.fileno())],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # a terminal's Ctrl-C is for the tests
        )
    atexit.register(_end, process, ours)
    return ours


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    process.wait()


def write_program(path: Path, function: str, site: Path) -> None:
    """Write a program for shells that calls this function of ``whale_core.cli.main``.

    It needs the server's descriptor in ``WARM_SERVER``. ``site`` is a folder of packages that may
    have grown since the server began.
    """
    command = shlex.join([sys.executable, "-IS", str(CLIENT), function, str(site)])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)
