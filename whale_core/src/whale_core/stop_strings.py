"""Incremental search for stop strings while tokens arrive one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

UNFINISHED = "\ufffd"  # what a decoder shows for a character whose bytes are not all there yet


class StopFinder:
    """Says after each token whether the decoded text now contains one of ``stop``.

    Only a short tail of the tokens is decoded: from ``_start``, a place where the text of the
    tokens before was complete, so that characters and joins across tokens come out as in the whole.
    ``_done`` tokens are settled; the text of those after it is looked at but not yet kept.
    """

    def __init__(self, stop: Sequence[str], decode: Callable[[Sequence[int]], str]) -> None:
        """Search for the non-empty strings ``stop`` in what ``decode`` makes of the tokens."""
        self._stop = tuple(text for text in stop if text)
        self._keep = max((len(text) for text in self._stop), default=1) - 1
        self._decode = decode
        self._ids: list[int] = []
        self._start = 0
        self._done = 0
        self._tail = ""

    def push(self, token: int) -> bool:
        """Add a token; return whether the text contains a stop string now."""
        if not self._stop:
            return False
        self._ids.append(token)
        settled = self._decode(self._ids[self._start : self._done])
        fresh = self._decode(self._ids[self._start :])[len(settled) :]
        seen = self._tail + fresh
        if any(text in seen for text in self._stop):
            return True
        if fresh and not fresh.endswith(UNFINISHED):
            self._start, self._done = self._done, len(self._ids)
            self._tail = seen[-self._keep :] if self._keep else ""
        return False
