"""The trusted side of one episode: receive what the harness asks for, answer it."""

from __future__ import annotations

import asyncio
import os
import signal

from whale_core.jail import descriptors, wire
from whale_core.jail.events import ChatRequest, Ended, Event, Finished, ToolRequest
from whale_core.jail.zygote import Exit, Zygote
from whale_core.records import Json
from whale_core.roles import Limits
from whale_harness._jail.episode import EXIT_MEMORY, READY

EXIT_SECONDS = 5.0  # from the end of a child's stream to the report of its end
WAIT_SHARE = 1 / 60  # of wall_seconds: one wait counts for no more, however busy this side is
TURNS_HELD = 4  # an episode may keep this side waiting for so many times wall_seconds in all


class Episode:
    """One episode's process.

    ``receive`` waits for the next event; a ``ChatRequest`` or ``ToolRequest`` must be answered
    before the next ``receive``. After ``Finished`` or ``Ended`` it returns the same event again,
    and replies do nothing. The harness's turn lasts from an answer to the next event; only that
    time counts against ``Limits.wall_seconds``. All turns together may keep this side waiting for
    ``TURNS_HELD`` times as long: so long can one harness hold up its block.
    """

    def __init__(self, zygote: Zygote, limits: Limits, line_bytes: int) -> None:
        """Fork the child; ``start`` sends it its work."""
        self._loop = asyncio.get_running_loop()
        self._zygote = zygote
        self._limits = limits
        self._line_bytes = line_bytes
        self._bytes_left = line_bytes * (limits.model_calls + limits.env_calls + 1)
        self._tool_bytes_left = line_bytes  # their arguments are kept, unlike all else
        self._child, self._socket, self._exit = zygote.fork()
        self._received = bytearray()
        self._ready = False
        self._ordinal = 0
        self._handles: set[int] = set()
        self._awaits: type[ChatRequest] | type[ToolRequest] | None = None
        self._over: Finished | Ended | None = None
        self._waited_in_turn = 0.0
        self._waited = 0.0

    async def start(self, lines: bytes) -> None:
        """Send the child its first lines."""
        await self._send(lines)

    async def receive(self) -> Event:
        """Return the harness's next event. Nothing that a harness does raises here.

        Raises:
            RuntimeError: the last request was not answered (a fault of the caller).
        """
        if self._over is not None:
            return self._over
        if self._awaits is not None:
            raise RuntimeError(f"a {self._awaits.__name__} has not been answered")
        line = await self.receive_line()
        if isinstance(line, Ended):
            return line
        try:
            event = wire.event_of(line, self._ordinal, self._handles)
            if self._received:
                raise wire.ProtocolError("it spoke out of turn")
        except wire.ProtocolError:
            event = Ended("protocol")
        self._ordinal += 1
        if isinstance(event, ToolRequest):
            self._tool_bytes_left -= len(line)
            if self._tool_bytes_left < 0:
                event = Ended("bytes")
        if isinstance(event, Finished | Ended):
            self._end(event)
        else:
            self._awaits = type(event)
        return event

    async def receive_line(self) -> bytes | Ended:
        """Return the next line without its end, or how the episode ended."""
        if isinstance(self._over, Ended):
            return self._over
        line = await self._line()
        if not self._ready:
            self._ready = line == READY
            self._waited_in_turn = self._waited = 0.0
            line = await self._line() if self._ready else Ended("jail", infrastructure=True)
        if isinstance(line, Ended):
            self._end(line)
        return line

    async def reply_chat(self, text: str, finish_reason: str, call: int) -> None:
        """Answer a ChatRequest; ``call`` is the reply's handle, the ordinal of the model call."""
        self._handles.add(call)
        await self._reply(ChatRequest, {"text": text, "finish_reason": finish_reason, "call": call})

    async def reply_tool(self, result: Json) -> None:
        """Answer a ToolRequest with its result."""
        await self._reply(ToolRequest, {"result": result})

    async def reply_tool_error(self, message: str) -> None:
        """Refuse a ToolRequest: the harness gets a ToolError."""
        await self._reply(ToolRequest, {"error": message})

    async def close(self) -> None:
        """Kill the child if it is alive, and free all. Idempotent."""
        self._end(Ended("closed"))

    async def cpu_seconds(self) -> float:
        """Close, and return the processor time that the child took (0.0 if the jail is gone)."""
        await self.close()
        exit_ = self._exit.result() if await self._reported() else None
        return 0.0 if exit_ is None else exit_.cpu_seconds

    async def _reply(self, request: type[ChatRequest] | type[ToolRequest], answer: Json) -> None:
        """Give the turn back to the harness, with an answer to its request."""
        if self._over is not None:
            return
        if self._awaits is not request:
            raise RuntimeError(f"there is no {request.__name__} to answer")
        self._awaits = None
        await self._send(wire.encode(answer))

    async def _send(self, data: bytes) -> None:
        """Send to the child and start its turn.

        If it is gone, ``receive`` will find out; if it does not read, it has stalled (or, when it
        has not said that it is ready, the jail has).
        """
        began = self._loop.time()
        sent = await descriptors.send(self._socket, data, self._limits.wall_seconds)
        taken = self._loop.time() - began
        self._waited_in_turn = taken
        self._waited += taken
        if not sent and taken >= self._limits.wall_seconds:
            self._end(Ended("stalled") if self._ordinal else Ended("jail", infrastructure=True))

    async def _line(self) -> bytes | Ended:
        """Return the next line that the child sent within its turn."""
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > self._line_bytes or self._bytes_left < 0:
                return Ended("bytes")
            data = await self._wait()
            if data is None:
                return Ended("stalled")
            if not data:
                return await self._how_it_ended()
            self._bytes_left -= len(data)
            self._received += data
        if end > self._line_bytes:
            return Ended("bytes")
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    async def _wait(self) -> bytes | None:
        """Return the next bytes (``b""`` at the end of the stream), or None if it took too long.

        What is counted is waiting, in small pieces, and not the clock: a machine or a container
        that stands still for an hour meanwhile is no harness's stall.
        """
        wall = self._limits.wall_seconds
        most = wall * WAIT_SHARE
        while self._waited_in_turn < wall and self._waited <= TURNS_HELD * wall:
            began = self._loop.time()
            data = await descriptors.receive(self._socket, 1 << 16, began + most)
            taken = min(self._loop.time() - began, most)
            self._waited_in_turn += taken
            self._waited += taken
            if data is not None:
                return data
        return None

    async def _how_it_ended(self) -> Ended:
        """Return why the child's stream ended, from the zygote's report."""
        if not await self._reported():
            return Ended("died")  # it closed its stream but lives on
        exit_ = self._exit.result()
        if exit_ is None or exit_.status is None:
            return Ended("jail", infrastructure=True)
        return Ended(self._cause(exit_))

    async def _reported(self) -> bool:
        """Give the zygote time to report the child's end; say whether it has."""
        if not self._exit.done():
            await asyncio.wait([self._exit], timeout=EXIT_SECONDS)
        return self._exit.done()

    def _cause(self, exit_: Exit) -> str:
        """Tell which limit, if any, ended the child."""
        status = exit_.status or 0
        if os.WIFEXITED(status):
            return "memory" if os.WEXITSTATUS(status) == EXIT_MEMORY else "died"
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU:
            return "cpu"
        if number == signal.SIGKILL:
            return "cpu" if exit_.cpu_seconds >= self._limits.cpu_seconds else "memory"
        return "died"

    def _end(self, event: Ended | Finished) -> None:
        """Settle the episode's outcome, once, and get rid of the child."""
        if self._over is None:
            self._over = event
            self._awaits = None
            self._zygote.kill(self._child)
            self._socket.close()
