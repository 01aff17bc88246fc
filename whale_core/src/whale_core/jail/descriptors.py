"""Waiting for file descriptors in asyncio, without ever losing bytes to a timeout."""

from __future__ import annotations

import asyncio
import resource
import socket


def allow_many_descriptors() -> None:
    """Raise this process's soft limit of open files to its hard limit (a descriptor an episode)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def receive(connection: socket.socket, size: int, deadline: float) -> bytes | None:
    """Return the next bytes (``b""`` at the end of the stream), or None after ``deadline``.

    ``deadline`` is a time of the running loop. What has arrived by the time this is looked at
    counts, however late that is: a busy trusted side never turns into a harness's stall.
    """
    loop = asyncio.get_running_loop()
    late = False
    while True:
        try:
            return connection.recv(size)
        except BlockingIOError:
            if late:
                return None
        except ConnectionError:
            return b""
        waiter = loop.create_future()
        timer = loop.call_at(deadline, _wake, waiter)
        loop.add_reader(connection, _wake, waiter)
        try:
            await waiter
        finally:
            loop.remove_reader(connection)
            timer.cancel()
        late = loop.time() >= deadline


async def send(connection: socket.socket, data: bytes, seconds: float) -> bool:
    """Send all of ``data``; return False if the other side is gone or takes longer than that."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    view = memoryview(data)
    while True:
        try:
            view = view[connection.send(view) :]
        except BlockingIOError:
            pass
        except OSError:
            return False
        if not view:
            return True
        if loop.time() >= deadline:
            return False
        waiter = loop.create_future()
        timer = loop.call_at(deadline, _wake, waiter)
        loop.add_writer(connection, _wake, waiter)
        try:
            await waiter
        finally:
            loop.remove_writer(connection)
            timer.cancel()


def _wake(waiter: asyncio.Future[None]) -> None:
    """Resolve ``waiter`` if nothing else has."""
    if not waiter.done():
        waiter.set_result(None)
