"""Runs programs in a jail of their own: the core's, with one process for each program."""

from __future__ import annotations

import asyncio
import os
import weakref
from contextlib import AbstractAsyncContextManager
from importlib import resources

from whale_core.errors import InputError
from whale_core.jail import Ended, Finished, Jail, JailError, open_jail, probe
from whale_core.roles import Limits
from whale_math.config import PythonConfig
from whale_math.python.result import DIED, MEMORY, OUTPUT, PROTOCOL, TIMEOUT, Result, lost, read

# Nothing of a program is in this text: it comes with each call.
PROGRAM = """

from whale_harness import BaseHarness

class Harness(BaseHarness):
    async def run(self, task, model, env):
        return captured(task["code"], task["show_last"], task["most"])
"""
ENDS = {"cpu": TIMEOUT, "stalled": TIMEOUT, "memory": MEMORY, "bytes": OUTPUT, "died": DIED}
BYTES = 40  # of the line that reports a character, at most: it is escaped twice, in two streams


class JailedPython:
    """A warm jail, started at the first call and again in another event loop.

    At most as many programs run at a time as there are processors, so that one that computes is
    not stopped for the time that others took.
    """

    def __init__(self, config: PythonConfig) -> None:
        """Start nothing yet."""
        self._most = config.output
        self._limits = Limits(
            model_calls=0,
            env_calls=0,
            message_bytes=BYTES * config.output + 10_000,
            cpu_seconds=config.cpu_seconds,
            memory_mb=config.memory_mb,
            wall_seconds=config.wall_seconds,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: asyncio.Task[Jail] | None = None
        self._kept: AbstractAsyncContextManager[Jail] | None = None
        self._slots = asyncio.Semaphore(_processors())
        self._end: weakref.finalize[..., JailedPython] | None = None

    async def run(self, code: str, show_last: bool) -> Result:
        """Run ``code`` in a process of its own.

        Raises:
            JailError: the jail failed.
            InputError: no jail starts here.
        """
        jail = await self._jail()
        async with self._slots:
            task = {"code": code, "show_last": show_last, "most": self._most}
            program = await jail.episode(task, [], "python")
            try:
                event = await program.receive()
            finally:
                await program.close()
        if isinstance(event, Finished):
            return read(event.answer, self._most)
        if not isinstance(event, Ended):
            return lost(PROTOCOL)
        if event.infrastructure:
            raise JailError("the tool python: its jail ended")
        return lost(ENDS.get(event.reason, PROTOCOL))

    async def probe(self) -> None:
        """Start a jail of this kind once. Raise ``InputError`` when it does not start."""
        try:
            probe("auto")
        except InputError as error:
            reason = str(error).partition(";")[0]
            raise InputError(
                f"domain.python: {reason}; without that jail, what a model writes is not run here: "
                "give a service with domain.python.url"
            ) from None

    async def close(self) -> None:
        """End the jail and all in it. Idempotent."""
        if self._opened is not None and not self._loop_is_over():
            self._opened.cancel()  # where it is still starting
        self._opened = None
        if self._end is not None:
            self._end()
            self._end = None

    async def _jail(self) -> Jail:
        """Return the running loop's jail; one of an earlier loop is ended."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            await self.close()
            self._loop, self._slots = loop, asyncio.Semaphore(_processors())
        if self._opened is None:
            self._opened = loop.create_task(self._open())
        try:
            return await asyncio.shield(self._opened)
        except JailError:
            self._opened = None
            raise

    def _loop_is_over(self) -> bool:
        return self._loop is None or self._loop.is_closed()

    async def _open(self) -> Jail:
        source = (resources.files("whale_math.python") / "runner.py").read_text(encoding="utf-8")
        # Kept: a context manager that nobody holds is closed, and the jail with it.
        self._kept = open_jail(source + PROGRAM, self._limits, "auto")
        jail = await self._kept.__aenter__()
        # Also for whoever does not close: the jail must not outlive this object.
        self._end = weakref.finalize(self, jail.close)
        return jail


def _processors() -> int:
    return len(os.sched_getaffinity(0))
