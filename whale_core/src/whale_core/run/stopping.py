"""Ctrl-C: once finishes the block being worked on, twice stops at once.

In a notebook an event loop is running already, so a run works on a thread of its own; the main
thread, which alone is told of signals, waits for it and passes them on.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from attrs import define

from whale_core.plugins.manager import Observers
from whale_core.run.folder import RunFolder

T = TypeVar("T")


@define
class _Presses:
    """Ctrl-C as the waiting thread got it, for the thread that works."""

    count: int = 0
    stop: Callable[[], None] | None = None

    def press(self, *_: Any) -> None:
        """Count one, and pass it on if somebody listens yet."""
        self.count += 1
        if self.stop is not None:
            self.stop()


_passed_on: contextvars.ContextVar[_Presses | None] = contextvars.ContextVar(
    "whale_passed_on", default=None
)


def beside_a_loop(work: Callable[[], T]) -> T:
    """Return ``work()``, which may run event loops: on a thread of its own if one runs here.

    There Ctrl-C does not end the waiting: ``work`` is told and ends as it would on the main thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    presses = _Presses()
    result: Future[T] = Future()

    def do() -> None:
        _passed_on.set(presses)
        try:
            made = work()
        except BaseException as error:
            result.set_exception(error)
        else:
            result.set_result(made)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(do,), name="whale-run", daemon=True)
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, presses.press) if is_main else None
    try:
        thread.start()
        return result.result()
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)


@contextmanager
def stopping_gently(folder: RunFolder, observers: Observers) -> Iterator[None]:
    """Have the first Ctrl-C (or SIGTERM) finish the block being worked on, the second stop at once.

    Both leave a run that can be resumed; the second loses the unfinished block.
    """
    task = _this_task()

    def stop() -> None:
        if folder.stop:
            task.cancel()
            return
        folder.stop = True
        observers.on_notice("stopping when this block is done; once more stops at once")

    with _told(stop):
        yield


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Have Ctrl-C (or SIGTERM) stop what is being worked on: there is nothing to lose."""
    task = _this_task()

    def stop() -> None:
        task.cancel()

    with _told(stop):
        yield


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@contextmanager
def _told(stop: Callable[[], None]) -> Iterator[None]:
    """Have ``stop`` called in the running loop at each Ctrl-C; a cancelled task is an interrupt."""
    on_main = threading.current_thread() is threading.main_thread()
    with _told_by_signals(stop) if on_main else _told_by_presses(stop):
        try:
            yield
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


@contextmanager
def _told_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in signals]
    for number in signals:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


@contextmanager
def _told_by_presses(stop: Callable[[], None]) -> Iterator[None]:
    """Listen to the thread that waits, if one does: no signal arrives on this thread."""
    presses = _passed_on.get()
    if presses is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def passed_on() -> None:
        with suppress(RuntimeError):  # the loop is closed: there is nothing left to stop
            loop.call_soon_threadsafe(stop)

    presses.stop = passed_on
    for _ in range(presses.count):  # before anybody listened
        stop()
    try:
        yield
    finally:
        presses.stop = None
