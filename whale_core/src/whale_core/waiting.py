"""What people on a terminal are told while something takes long."""

from __future__ import annotations

import sys
import time


class Progress:
    """Tells people on a terminal, now and then, that something takes long."""

    def __init__(self, text: str, every: float = 15.0) -> None:
        """Say ``text`` on standard error, if that is a terminal."""
        self._shown = sys.stderr.isatty()
        self._text = text
        self._every = every
        self._started = time.monotonic()
        self._next = 0.0

    def tick(self) -> float:
        """Say it again when it is time; return the seconds since the beginning."""
        passed = time.monotonic() - self._started
        if self._shown and passed >= self._next:
            self._next = passed + self._every
            print(f"{self._text} … {passed:.0f} s", file=sys.stderr, flush=True)
        return passed
