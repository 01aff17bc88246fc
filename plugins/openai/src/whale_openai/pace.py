"""How often requests begin: providers count them by the minute."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import openai


class Pace:
    """Lets requests begin evenly spaced, in the order in which they ask: many providers enforce a
    limit per minute second by second, so a minute's requests at once would be refused."""

    def __init__(self, per_minute: float) -> None:
        """Take the limit; 0 is none."""
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0  # on the monotonic clock

    async def wait(self, request: Any = None) -> None:
        """Wait until the next request may begin."""
        now = time.monotonic()
        begin = max(now, self._next)
        self._next = begin + self._gap
        await asyncio.sleep(begin - now)

    def longest(self, others: int) -> float:
        """Return how many seconds a request waits at most while ``others`` wait, too."""
        return self._gap * others

    def client(self) -> Any:
        """Return an HTTP client of the SDK whose every request waits, further tries included; None
        without a limit."""
        if not self._gap:
            return None
        return openai.DefaultAsyncHttpxClient(event_hooks={"request": [self.wait]})
