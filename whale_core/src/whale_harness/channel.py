"""The line protocol between a harness process and the trusted side.

Each request is one JSON line ``{"n": ordinal, kind: body}`` and gets one JSON line back, so the
trusted side knows at every moment whose turn it is. A request blocks the whole process until it is
answered: requests made under ``asyncio.gather`` are served one after the other, in the order in
which their tasks started, and call ordinals never depend on timing.
"""

from __future__ import annotations

import json
import os
from typing import Any


class Channel:
    """Requests and answers over one stream socket, given by its file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._received = bytearray()
        self._ordinal = 0

    def ask(self, kind: str, body: object) -> dict[str, Any]:
        """Send a request and return its answer."""
        self.tell(kind, body)
        answer: dict[str, Any] = json.loads(self.read_line())
        return answer

    def tell(self, kind: str, body: object) -> None:
        """Send a line that gets no answer.

        Raises:
            TypeError: ``body`` is not made of JSON values.
            ValueError: ``body`` holds NaN, an infinity, or text that is not valid Unicode.
        """
        text = json.dumps({"n": self._ordinal, kind: body}, ensure_ascii=False, allow_nan=False)
        line = text.encode() + b"\n"
        self._ordinal += 1
        self.write(line)

    def write(self, data: bytes) -> None:
        """Write all of ``data``."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def read_line(self) -> bytes:
        """Return the next line without its end.

        Raises:
            ConnectionError: the trusted side ended the episode.
        """
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            data = os.read(self._descriptor, 1 << 16)
            if not data:
                raise ConnectionError("the episode is over")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line
