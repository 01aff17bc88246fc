"""A few processes that compare answers, each within processor time; one that overruns is replaced.

Processor time is counted, so that a busy machine turns no right answer into a wrong one; the clock
is a far backstop.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import weakref

from whale_math.verify.size import too_large

START_SECONDS = 120.0  # the library's imports, on a busy machine
FAR = 30  # times its processor time that a comparison may take by the clock
COMMAND = (sys.executable, "-P", "-m", "whale_math.verify.worker")
NEEDED = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "HOME")  # no keys: it parses what a model wrote


class WorkersFailed(Exception):
    """No worker can be started, or it gets no processor: nothing can be judged."""


class TooSlow(Exception):
    """A comparison used up its processor time."""


class Worker:
    """One process. Use ``Worker.start``."""

    def __init__(self) -> None:
        """Start the process; it is not ready yet."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    COMMAND,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env={name: os.environ[name] for name in NEEDED if name in os.environ},
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise WorkersFailed(f"no process for math-verify ({error})") from error
        ours.setblocking(False)
        self._socket = ours
        self._received = b""
        # Also for whoever does not close: no process must outlive this object.
        self._end = weakref.finalize(self, _end, self._process, ours)

    @classmethod
    async def start(cls) -> Worker:
        """Return a worker that has loaded the library.

        Raises:
            WorkersFailed: it does not get ready.
        """
        worker = cls()
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = await worker._line() == b"ready"
        except TimeoutError:
            ready = False
        except BaseException:
            worker.close()
            raise
        if not ready:
            worker.close()
            raise WorkersFailed("a worker for math-verify does not start (is it installed?)")
        return worker

    async def equal(self, reference: str, answer: str, seconds: float) -> bool | None:
        """Return the library's verdict; None when the process ends at it.

        Raises:
            TooSlow: ``seconds`` of processor time were not enough.
            WorkersFailed: the process is still at it after a time in which it should have had them.
        """
        line = json.dumps([reference, answer, seconds]).encode() + b"\n"
        try:
            async with asyncio.timeout(FAR * seconds):
                await asyncio.get_running_loop().sock_sendall(self._socket, line)
                reply = await self._line()
        except TimeoutError:
            raise WorkersFailed(
                f"math-verify: a comparison got no {seconds:g} s of a processor in "
                f"{FAR * seconds:g} s"
            ) from None
        except OSError:
            reply = b""
        if not reply and self._ended_by() == signal.SIGPROF:
            raise TooSlow
        return {b"true": True, b"false": False}.get(reply)

    def _ended_by(self) -> int:
        """Return the signal that ended the process, which has closed its side; 0 for none."""
        try:
            return max(0, -self._process.wait(1.0))
        except subprocess.TimeoutExpired:
            return 0

    def close(self) -> None:
        """Kill the process. Idempotent."""
        self._end()

    async def _line(self) -> bytes:
        """Return the next line without its end; ``b""`` when there is none to come."""
        while b"\n" not in self._received:
            data = await asyncio.get_running_loop().sock_recv(self._socket, 1 << 16)
            if not data:
                return b""
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line


def _end(process: subprocess.Popen[bytes], channel: socket.socket) -> None:
    process.kill()
    process.wait()
    channel.close()


class Pool:
    """Up to ``size`` workers, started as they are needed and again in another event loop."""

    def __init__(self, size: int, seconds: float) -> None:
        """Start nothing yet; a comparison may take ``seconds`` of a processor."""
        self._size = size
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()

    async def equal(self, reference: str, answer: str) -> bool | None:
        """Return whether two expressions are equal; None where that cannot be decided in time, or
        one is too large to try.

        A comparison at which a worker ends is tried once more, by a new one.

        Raises:
            WorkersFailed: no worker can be started, or it gets no processor.
        """
        if too_large(reference) or too_large(answer):
            return None
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self.close()
            self._loop, self._slots = loop, asyncio.Semaphore(self._size)
        async with self._slots:
            for _ in range(2):
                try:
                    verdict = await self._asked(reference, answer)
                except TooSlow:
                    return None
                if verdict is not None:
                    return verdict
        return None

    def close(self) -> None:
        """End all workers. Idempotent."""
        for worker in self._all:
            worker.close()
        self._all.clear()
        self._idle.clear()

    async def _asked(self, reference: str, answer: str) -> bool | None:
        worker = self._idle.pop() if self._idle else await self._new()
        verdict = None
        try:
            verdict = await worker.equal(reference, answer, self._seconds)
        finally:
            if verdict is None:  # too slow, gone, or this was cancelled
                worker.close()
                self._all.discard(worker)
            else:
                self._idle.append(worker)
        return verdict

    async def _new(self) -> Worker:
        worker = await Worker.start()
        self._all.add(worker)
        return worker
