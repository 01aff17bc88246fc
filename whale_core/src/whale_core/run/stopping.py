"""Ctrl-C: once finishes the block being worked on, twice stops at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from whale_core.plugins.manager import Observers
from whale_core.run.folder import RunFolder


@contextmanager
def stopping_gently(folder: RunFolder, observers: Observers) -> Iterator[None]:
    """Have the first Ctrl-C (or SIGTERM) finish the block being worked on, the second stop at once.

    Both leave a run that can be resumed; the second loses the unfinished block.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def stop() -> None:
        if folder.stop:
            task.cancel()
            return
        folder.stop = True
        observers.on_notice("stopping when this block is done; once more stops at once")

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in signals]
    for number in signals:
        loop.add_signal_handler(number, stop)
    try:
        yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in zip(signals, before, strict=True):
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
