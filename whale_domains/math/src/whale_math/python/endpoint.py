"""Runs programs through a service that speaks SandboxFusion's ``POST /run_code``.

A request has ``code``, ``language``, ``compile_timeout``, ``run_timeout`` (seconds) and
``memory_limit_MB``; the reply's ``run_result`` has ``status``, ``return_code``, ``stdout`` and
``stderr``. Some such services report the status ``Finished`` for failing programs too, so the
return code alone says how a program ended.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
import urllib.error
import urllib.request
from importlib import resources

from whale_core.errors import InputError
from whale_core.records import Json
from whale_math.config import PythonConfig
from whale_math.python.result import DIED, FINISHED, OUTPUT, TIMEOUT, Result, lost, valid

TRIES = 3
WAIT_SECONDS = 0.5  # before the second try; twice as long before the third
SLACK_SECONDS = 15.0  # that a service may take beyond a program's own time
PATIENCE = 2.0  # times the longest try that all tries together may take
REPLY_BYTES = 16 << 20
AT_A_TIME = 16
PROBE = "print(6 * 7)"


class EndpointError(Exception):
    """The service failed: no fault of a program."""


class TooMuch(EndpointError):
    """The reply is longer than any that is read: the program wrote that much."""


class EndpointPython:
    """Programs run elsewhere; what they may import and do there is that service's affair."""

    def __init__(self, config: PythonConfig) -> None:
        """Ask nothing yet."""
        self._config = config
        self._url = config.url.rstrip("/") + "/run_code"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(AT_A_TIME)

    async def run(self, code: str, show_last: bool) -> Result:
        """Run ``code``, with further tries while there is time.

        Raises:
            EndpointError: the service does not answer in time, or not in its protocol.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._slots = loop, asyncio.Semaphore(AT_A_TIME)
        async with self._slots:
            longest = self._config.wall_seconds + SLACK_SECONDS
            end = loop.time() + PATIENCE * longest
            for attempt in range(TRIES):
                pause = WAIT_SECONDS * 2**attempt
                try:
                    seconds = min(longest, end - loop.time())
                    return await self._asked(code, show_last, seconds)
                except TooMuch:
                    return lost(OUTPUT)
                except EndpointError:
                    if attempt == TRIES - 1 or loop.time() + pause >= end:
                        raise
                await asyncio.sleep(pause)
        raise AssertionError

    async def probe(self) -> None:
        """Run one small program. Raise ``InputError`` when that does not work."""
        try:
            made = await self._asked(PROBE, False, self._config.wall_seconds + SLACK_SECONDS)
        except EndpointError as error:
            raise InputError(
                f"domain.python.url={self._config.url}: {error}; start a SandboxFusion-compatible "
                "service there, or leave the setting out to use the jail"
            ) from None
        if made.stdout.strip() != "42" or made.exit_status != 0:
            raise InputError(
                f"domain.python.url={self._config.url}: the program `{PROBE}` printed "
                f"{made.stdout[:80]!r} (exit status {made.exit_status}): this runs no Python"
            )

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _asked(self, code: str, show_last: bool, seconds: float) -> Result:
        """Ask once. A socket's own timeout begins anew with each byte, so the whole is limited."""
        asking = asyncio.to_thread(self._ask, code, show_last, seconds)
        try:
            async with asyncio.timeout(seconds):
                return self._result(await asking)
        except TimeoutError:
            raise EndpointError(f"the service gives no answer in {seconds:.3g} s") from None

    def _ask(self, code: str, show_last: bool, seconds: float) -> Json:
        config = self._config
        body = {
            "code": _program(code, show_last),
            "language": "python",
            "compile_timeout": config.wall_seconds,
            "run_timeout": config.wall_seconds,
            "memory_limit_MB": config.memory_mb,
        }
        headers = {"Content-Type": "application/json"}
        try:
            request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=seconds) as reply:
                data = _read(reply, time.monotonic() + seconds)
        except urllib.error.HTTPError as error:
            error.close()
            raise EndpointError(f"the service answers {error.code} {error.reason}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise EndpointError(f"the service cannot be reached ({reason})") from None
        if len(data) > REPLY_BYTES:
            raise TooMuch(f"the service's reply is longer than {REPLY_BYTES} bytes")
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise EndpointError("the service's reply is not JSON") from None

    def _result(self, reply: Json) -> Result:
        run = reply.get("run_result") if isinstance(reply, dict) else None
        if not isinstance(run, dict):
            message = str(reply.get("message", ""))[:100] if isinstance(reply, dict) else ""
            raise EndpointError(f"the service's reply has no run_result ({message})")
        status, code = str(run.get("status", "")), run.get("return_code")
        if status == "TimeLimitExceeded":
            return lost(TIMEOUT)
        out, errors = (run.get(name) or "" for name in ("stdout", "stderr"))
        if not (isinstance(out, str) and isinstance(errors, str)):
            raise EndpointError("the service's stdout or stderr is no text")
        most = self._config.output
        kept = valid(out[:most]), valid(errors[:most])
        if max(len(out), len(errors)) > most:
            return Result(*kept, None, OUTPUT)
        if type(code) is not int:
            if status == "Finished":
                raise EndpointError("the service's run_result has no return_code")
            return Result(*kept, None, DIED)
        return Result(*kept, code & 0xFF, FINISHED) if code >= 0 else Result(*kept, None, DIED)


def _read(reply: http.client.HTTPResponse, end: float) -> bytes:
    """Return the body, or more than is read of one. Raise ``TimeoutError`` at the time ``end``."""
    data = bytearray()
    while len(data) <= REPLY_BYTES and (part := reply.read1(1 << 16)):
        data += part
        if time.monotonic() > end:
            raise TimeoutError("it is too slow")
    return bytes(data)


def _program(code: str, show_last: bool) -> str:
    """Return a script that runs ``code`` as the jail does."""
    runner = (resources.files("whale_math.python") / "runner.py").read_text(encoding="utf-8")
    return f"{runner}\n\nsys.exit(execute({code!r}, {show_last!r}, sys.stderr))\n"
