"""Opens a jail for one harness and starts its episodes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from whale_core.errors import InputError
from whale_core.jail import wire
from whale_core.jail.descriptors import allow_many_descriptors
from whale_core.jail.episode import Episode
from whale_core.jail.events import Ended
from whale_core.jail.kinds import JailKind, probe
from whale_core.jail.zygote import JailError, Zygote
from whale_core.keys import content_hash
from whale_core.records import Json
from whale_core.roles import Limits

CODE_BYTES = 4 << 20


class HarnessLoadError(InputError):
    """The harness file cannot be loaded; the message says why, with the line."""


class Jail:
    """A jail in which one harness runs. Use ``open_jail``."""

    def __init__(self, kind: JailKind, limits: Limits) -> None:
        self.kind = kind
        self._limits = limits
        self._zygote: Zygote | None = None
        self._starting = asyncio.Lock()
        self._code_line = b""

    async def load(self, source: str) -> None:
        """Compile, execute and check the harness in a process of its own.

        Raises:
            HarnessLoadError: it cannot be loaded.
            JailError: the jail failed.
        """
        try:
            line = wire.encode({"source": source})
        except UnicodeEncodeError:
            raise HarnessLoadError("the harness is not valid Unicode text") from None
        episode = Episode(await self._running_zygote(), self._limits, CODE_BYTES)
        try:
            await episode.start(line)
            code = await self._expect(episode, 0, "code")
            await self._expect(episode, 1, "loaded")
        finally:
            await episode.close()
        self._code_line = wire.encode({"code": code})

    async def episode(self, task: Json, tools: list[Json], seed: str) -> Episode:
        """Start an episode in a fresh process.

        Args:
            task: the public view, as JSON.
            tools: descriptions of the environment's tools, as JSON.
            seed: seeds the harness's global ``random``. It is hashed first, since it may name the
                example, which a harness must not learn.

        Raises:
            JailError: the jail was gone and could not be started again.
        """
        start = wire.encode({"task": task, "tools": tools, "seed": content_hash(seed)})
        episode = Episode(await self._running_zygote(), self._limits, self._limits.message_bytes)
        await episode.start(self._code_line + start)
        return episode

    def close(self) -> None:
        """End the jail and every episode in it. Idempotent."""
        if self._zygote is not None:
            self._zygote.close()

    async def _running_zygote(self) -> Zygote:
        """Return the zygote, started anew if it is gone."""
        async with self._starting:
            if self._zygote is None or not self._zygote.alive:
                self.close()
                cpu_seconds = math.ceil(self._limits.cpu_seconds)
                memory_bytes = self._limits.memory_mb << 20
                self._zygote = await Zygote.start(self.kind, cpu_seconds, memory_bytes)
            return self._zygote

    async def _expect(self, episode: Episode, ordinal: int, kind: str) -> Json:
        """Return the body of the load check's next line, which must be of ``kind``."""
        line = await episode.receive_line()
        if isinstance(line, Ended):
            if line.infrastructure:
                raise JailError("jail: it ended while a harness was loaded")
            raise HarnessLoadError(f"loading it ended with: {line.reason}")
        try:
            got, body = wire.body_of(line, ordinal)
        except wire.ProtocolError:
            got, body = "", None
        if got == "error" and isinstance(body, str):
            raise HarnessLoadError(wire.one_line(body))
        if got != kind:
            raise HarnessLoadError("loading it wrote to the jail's own channel")
        return body


@asynccontextmanager
async def open_jail(source: str, limits: Limits, kind: str) -> AsyncIterator[Jail]:
    """Start a jail and load the harness ``source`` in it; at the end everything in it is killed.

    Args:
        source: the harness file's text.
        limits: what each episode may use.
        kind: what ``probe`` returned.

    Raises:
        HarnessLoadError: the file cannot be loaded, or has no ``Harness``.
        InputError: that kind of jail does not start on this machine.
        JailError: the jail failed.
    """
    allow_many_descriptors()
    jail = Jail(probe(kind), limits)
    try:
        await jail.load(source)
        yield jail
    finally:
        jail.close()
