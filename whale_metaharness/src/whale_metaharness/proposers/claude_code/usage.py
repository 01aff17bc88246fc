"""What replies of the Messages API say they cost, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import define, field

from whale_core.records import Json, Spent
from whale_metaharness.config import MessagePrices

COUNTS = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


def spent_of(usage: Mapping[str, int], prices: MessagePrices) -> Spent:
    """Return what one call cost whose counts (``COUNTS``) are ``usage``."""
    fresh, written, read, output = (usage.get(name, 0) for name in COUNTS)
    usd = fresh * prices.input + written * prices.cache_write + read * prices.cached
    usd += output * prices.output
    return Spent(1, fresh + written + read, read, output, usd / 1e6)


@define
class UsageReader:
    """Reads a reply as it passes by; ``counts`` are the newest that it told."""

    streamed: bool
    counts: dict[str, int] = field(factory=dict)
    _rest: bytes = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the reply."""
        self._rest += data
        if not self.streamed:
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._take(line[len(b"data:") :])

    def end(self) -> None:
        """Take notice that the reply is whole."""
        if not self.streamed:
            self._take(self._rest)

    def _take(self, data: bytes) -> None:
        try:
            event: Json = json.loads(data)
        except ValueError:
            return  # not ours to judge: the agent gets it as it is
        if not isinstance(event, dict):
            return
        message = event.get("message")
        for holder in (message if isinstance(message, dict) else {}, event):
            usage = holder.get("usage")
            if isinstance(usage, dict):
                # A later event repeats counts or leaves them out; none takes tokens back.
                for name in COUNTS:
                    count = usage.get(name)
                    if isinstance(count, int) and count >= 0:
                        self.counts[name] = max(count, self.counts.get(name, 0))
