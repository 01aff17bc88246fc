"""What replies of the Messages API say they cost, whole or streamed."""

from __future__ import annotations

import json

from attrs import define, field

from whale_core.records import Json

COUNTS = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


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
