"""vLLM servers as child processes on this machine: started, waited for, ended with the run."""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from whale_core.errors import EngineError, InputError
from whale_vllm import guard
from whale_vllm.arguments import arguments
from whale_vllm.client import HTTPReplica
from whale_vllm.config import Config
from whale_vllm.replica import CANNOT_SLEEP, Replica, cannot_sleep

HOST = "127.0.0.1"  # the endpoints that load weights ask nobody for a key
LAST = 3  # lines of a log that an error shows
CLOSE_SECONDS = 15.0
DEVICES = "CUDA_VISIBLE_DEVICES"


class Server:
    """One started server. ``log`` is the file of all it prints."""

    def __init__(self, command: list[str], port: int, environment: dict[str, str]) -> None:
        """Start ``command``, under a guard that ends it when this process is gone."""
        handle, name = tempfile.mkstemp(prefix="whale-vllm-", suffix=".log")
        self.log = Path(name)
        self.url = f"http://{HOST}:{port}"
        self._named = False
        with os.fdopen(handle, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # an interrupt at the terminal is the run's to handle
            )
        atexit.register(self.stop)

    def hint(self) -> str:
        """Return what an error says of it; the log that is named there is kept."""
        self._named = True
        return f" (its log: {self.log})"

    @property
    def ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.poll() is not None

    def check_alive(self) -> None:
        """Raise ``EngineError`` with the last lines of the log when the server has ended,
        ``InputError`` where it ended because it was to be able to sleep."""
        code = self._process.poll()
        if code is not None:
            if CANNOT_SLEEP in self.log.read_text(errors="replace"):
                raise cannot_sleep()
            raise EngineError(
                f"vLLM server {self.url} ended with exit code {code}: {self._last()}{self.hint()}"
            )

    def stop(self, keep_log: bool = True) -> None:
        """End the server; its log is removed where nobody wants it and no error named it.
        Idempotent."""
        atexit.unregister(self.stop)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if not (keep_log or self._named):
            self.log.unlink(missing_ok=True)

    def _last(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        telling = [line for line in lines if "Error" in line] or [x for x in lines if x.strip()]
        return " | ".join(" ".join(line.split())[:200] for line in telling[-LAST:]) or "no output"


class ServerPool:
    """Servers as the engine's replicas; implements ``Pool``. ``started`` are those that end with
    it."""

    def __init__(self, urls: Sequence[str], started: Sequence[Server], timeout: float) -> None:
        """Talk to the servers at ``urls``, ``timeout`` seconds at most with each request."""
        self.names = tuple(urls)
        self.ours = bool(started)
        self.started = tuple(started)
        self.timeout = timeout
        self._connected: list[HTTPReplica] = []

    def connect(self) -> list[Replica]:
        """Return the replicas, connected for the running event loop."""
        hints = [server.hint for server in self.started] or [str] * len(self.names)
        self._connected = [
            HTTPReplica(url, self.timeout, hint)
            for url, hint in zip(self.names, hints, strict=True)
        ]
        return list(self._connected)

    async def disconnect(self) -> None:
        """Close the connections of this event loop."""
        connected, self._connected = self._connected, []
        await asyncio.gather(*(one.close() for one in connected))

    async def check_alive(self) -> None:
        """Raise ``EngineError`` for a started server that has ended."""
        for server in self.started:
            server.check_alive()

    async def end(self, keep_logs: bool) -> None:
        """End the servers that were started here.

        The log of one that ended by itself is kept, too.
        """
        ends = [(server.stop, keep_logs or server.ended) for server in self.started]
        await asyncio.gather(*(asyncio.to_thread(stop, keep) for stop, keep in ends))


def start(config: Config, model: Path, dtype: str, mode: str, longest: int) -> list[Server]:
    """Start the configured number of servers for the folder ``model``.

    ``mode`` is their ``--logprobs-mode``, ``longest`` the tokens of a context. Raise ``InputError``
    when vLLM is not installed, or there are too few devices.
    """
    program = program_of()
    shares = devices(config, os.environ.get(DEVICES))
    started: list[Server] = []
    for share in shares:
        port = free_port()
        environment = {**os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
        environment["VLLM_LOGGING_LEVEL"] = os.environ.get("VLLM_LOGGING_LEVEL", "WARNING")
        if share is not None:
            environment[DEVICES] = share
        given = command_of(config, model, dtype, mode, longest)
        command = [*program, *given, "--port", str(port)]
        started.append(Server(command, port, environment))
    return started


def program_of() -> list[str]:
    """Return the command that is vLLM: of this environment, or else on the PATH."""
    spec = importlib.util.find_spec("vllm")
    if spec is not None and spec.origin is not None:  # not some folder that has the name
        return [sys.executable, "-m", "vllm.entrypoints.cli.main"]
    found = shutil.which("vllm")
    if found is None:
        raise InputError(
            "engine vllm: vLLM is not installed here; run: pip install 'whale-vllm[vllm]', or name "
            "running servers in engine.urls"
        )
    return [found]


def command_of(config: Config, model: Path, dtype: str, mode: str, longest: int) -> list[str]:
    """Return the arguments of one server, its port left out."""
    given = arguments(config, dtype, mode, longest)
    return ["serve", str(model), "--host", HOST, "--enable-prompt-tokens-details", *given]


def devices(config: Config, visible: str | None) -> list[str | None]:
    """Return the visible devices of each server: its share of ``visible``, or of all, by number.

    None for the only server: it takes what it finds.
    """
    if config.replicas == 1:
        return [None]
    each, needed = config.tensor_parallel, config.replicas * config.tensor_parallel
    names = [name for name in visible.split(",") if name] if visible is not None else []
    if visible is None:
        names = [str(index) for index in range(needed)]
    elif not names:  # set to nothing: no GPU is to be used
        return [""] * config.replicas
    if len(names) < needed:
        raise InputError(
            f"engine.replicas={config.replicas} with engine.tensor_parallel={each}: they need "
            f"{needed} devices, {DEVICES} has {len(names)}"
        )
    return [",".join(names[first : first + each]) for first in range(0, needed, each)]


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
