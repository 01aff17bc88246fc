"""A few processes that compare answers, each with a deadline; one that overruns is replaced."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import weakref

START_SECONDS = 120.0  # the library's imports, on a busy machine
LONGEST = 2000  # characters of an expression
COMMAND = (sys.executable, "-P", "-m", "whale_math.verify.worker")
NEEDED = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "HOME")  # no keys: it parses what a model wrote


class WorkersFailed(Exception):
    """No worker can be started: nothing can be judged."""


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
        """Return the library's verdict; None when it takes longer, or the process ends."""
        line = json.dumps([reference, answer]).encode() + b"\n"
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().sock_sendall(self._socket, line)
                return {b"true": True, b"false": False}.get(await self._line())
        except (TimeoutError, OSError):
            return None

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
        """Start nothing yet; a comparison may take ``seconds``."""
        self._size = size
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()

    async def equal(self, reference: str, answer: str) -> bool | None:
        """Return whether two expressions are equal; None where that cannot be decided in time.

        A comparison at which a worker ends is tried once more, by a new one.

        Raises:
            WorkersFailed: no worker can be started.
        """
        if max(len(reference), len(answer)) > LONGEST:
            return None
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self.close()
            self._loop, self._slots = loop, asyncio.Semaphore(self._size)
        async with self._slots:
            for _ in range(2):
                began = loop.time()
                verdict = await self._asked(reference, answer)
                if verdict is not None or loop.time() - began >= self._seconds:
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
