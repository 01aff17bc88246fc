"""The engine's own thread: work is done on it one piece at a time, in order.

No ``ThreadPoolExecutor``: Python waits for the threads of those at exit, so one call that never
returns would keep the process alive.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from attrs import define, field

from whale_core.errors import EngineError

T = TypeVar("T")

GRACE_SECONDS = 60.0  # for a call that was given up to end, before the thread counts as stuck
IDLE_SECONDS = 0.2  # for a thread that has nothing to do to end
CLOSE_SECONDS = 5.0  # for the running call to end when the engine is closed, and again to break off


@define(eq=False)
class _Task:
    work: Callable[[], Any]
    result: Future[Any] = field(factory=Future)


class EngineThread:
    """A daemon thread. Nobody ever waits for it for good: when it has died or is stuck in a call
    that was given up, whoever wants something of it gets an ``EngineError``."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._lock = Lock()
        self._gone = ""  # why it does nothing more; guarded by the lock, like the queue's end
        self._given_up: Future[Any] | None = None
        self._grace_used = False
        self._thread = Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.abandon)  # an interruption may come before anybody could close

    def do(self, work: Callable[[], T]) -> T:
        """Return ``work()``, done on the thread; block until then."""
        result: T = self._submit(work).result()
        return result

    async def run(self, work: Callable[[], T]) -> T:
        """Return ``work()``, done on the thread; what it raises is raised here.

        Raises:
            EngineError: the thread is closed, dead, or stuck in an earlier call.
        """
        await self._settle()
        future = self._submit(work)
        try:
            result: T = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.cancelled():  # it runs
                self._given_up, self._grace_used = future, False
            raise
        return result

    async def close(self, last: Callable[[], None]) -> None:
        """Do ``last`` and end the thread, breaking off a long call. Idempotent.

        A call that never comes back to Python is left behind: it cannot keep the process.
        """
        with self._lock:
            if self._gone:
                return
            self._gone = "the engine is closed"
            task = _Task(last)
            self._tasks.put(task)
            self._tasks.put(None)
        await _ended(task.result, 0.0 if self._grace_used else CLOSE_SECONDS)
        self._finish()

    def abandon(self) -> None:
        """End the thread, breaking off what it does."""
        with self._lock:
            self._gone = self._gone or "the engine is closed"
            self._tasks.put(None)
        self._finish()

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        task = _Task(work)
        with self._lock:
            if self._gone:
                raise EngineError(self._gone)
            self._tasks.put(task)
        return task.result

    def _finish(self) -> None:
        """See the thread end; if it works on, its next Python instruction raises ``SystemExit``.

        A daemon thread that comes back from native code while the interpreter is taken down would
        abort the process.
        """
        atexit.unregister(self.abandon)
        self._thread.join(IDLE_SECONDS)
        if self._thread.is_alive():
            ident = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(SystemExit))
            self._thread.join(CLOSE_SECONDS)

    async def _settle(self) -> None:
        """Wait until a call that was given up has ended."""
        call = self._given_up
        if call is None:
            return
        await _ended(call, 0.0 if self._grace_used else GRACE_SECONDS)
        if not call.done():
            self._grace_used = True
            raise EngineError("the engine is stuck in a call that was given up")
        if self._given_up is call:  # nobody else has been here meanwhile
            self._given_up = None

    def _serve(self) -> None:
        """Do tasks until the end mark, or until one kills the thread."""
        try:
            while (task := self._tasks.get()) is not None:
                _do(task)
                del task  # or the thread would hold what it did last
        except BaseException as error:
            self._die(f"the engine's thread died of {type(error).__name__}: {error}")

    def _die(self, reason: str) -> None:
        with self._lock:
            self._gone = reason
            while not self._tasks.empty():
                task = self._tasks.get()
                if task is not None and task.result.set_running_or_notify_cancel():
                    task.result.set_exception(EngineError(reason))


def _do(task: _Task) -> None:
    if not task.result.set_running_or_notify_cancel():
        return
    try:
        result = task.work()
    except Exception as error:
        task.result.set_exception(error)
    except BaseException as error:
        task.result.set_exception(EngineError(f"{type(error).__name__}: {error}"))
        raise
    else:
        task.result.set_result(result)


async def _ended(future: Future[Any], seconds: float) -> None:
    """Wait for ``future``, no longer than that."""
    if future.done():
        return
    waiter = asyncio.wrap_future(future)
    await asyncio.wait({waiter}, timeout=seconds)
    waiter.cancel()  # it must not report to a loop that is closed by then
