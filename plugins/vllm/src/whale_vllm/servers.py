"""vLLM servers as child processes on this machine: started, waited for, ended with the run."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from whale_core.errors import EngineError, InputError
from whale_vllm import guard
from whale_vllm.config import Config

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

    @property
    def hint(self) -> str:
        """What an error says of it."""
        return f" (its log: {self.log})"

    @property
    def ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.poll() is not None

    def check_alive(self) -> None:
        """Raise ``EngineError`` with the last lines of the log when the server has ended."""
        code = self._process.poll()
        if code is not None:
            raise EngineError(
                f"vLLM server {self.url} ended with exit code {code}: {self._last()}{self.hint}"
            )

    def stop(self, keep_log: bool = True) -> None:
        """End the server; its log is removed where nobody wants it. Idempotent."""
        atexit.unregister(self.stop)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if not keep_log:
            self.log.unlink(missing_ok=True)

    def _last(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        telling = [line for line in lines if "Error" in line] or [x for x in lines if x.strip()]
        return " | ".join(" ".join(line.split())[:200] for line in telling[-LAST:]) or "no output"


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
        command = [*program, *arguments(config, model, dtype, mode, longest), "--port", str(port)]
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


def arguments(config: Config, model: Path, dtype: str, mode: str, longest: int) -> list[str]:
    """Return the arguments of one server.

    No default of the model's folder shall change what is sampled, so its generation settings are
    left out.
    """
    return [
        "serve",
        str(model),
        "--host",
        HOST,
        "--dtype",
        dtype,
        "--max-model-len",
        str(longest),
        "--gpu-memory-utilization",
        str(config.gpu_memory),
        "--tensor-parallel-size",
        str(config.tensor_parallel),
        "--logprobs-mode",
        mode,
        "--generation-config",
        "vllm",
        "--seed",
        "0",
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--disable-log-stats",
        *config.arguments,
    ]


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


class Progress:
    """Tells people on a terminal, now and then, that something takes long."""

    def __init__(self, text: str, every: float = 15.0) -> None:
        """Say ``text`` on standard error, if that is a terminal."""
        self._shown = sys.stderr.isatty()
        self._text = text
        self._every = every
        self._started = time.monotonic()
        self._next = 0.0

    def tick(self) -> float:
        """Say it again when it is time; return the seconds since the beginning."""
        passed = time.monotonic() - self._started
        if self._shown and passed >= self._next:
            self._next = passed + self._every
            print(f"{self._text} … {passed:.0f} s", file=sys.stderr, flush=True)
        return passed
