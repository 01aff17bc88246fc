"""What a session's calls cost, in a file that is written before the agent has the whole reply."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path

from attrs import define, field

from whale_core.records import Spent
from whale_metaharness.proposers.anthropic import Usage
from whale_metaharness.proposers.claude_code.usage import COUNTS
from whale_metaharness.proposers.settings import CachePrices


@define
class Account:
    """What the calls of a session cost, also those of earlier tries at it, kept in a file."""

    path: Path
    prices: CachePrices
    _counts: dict[int, dict[str, int]] = field(factory=dict)
    _lock: threading.Lock = field(factory=threading.Lock, repr=False)

    @classmethod
    def open(cls, path: Path, prices: CachePrices) -> Account:
        """Read what was written before; a line that was cut off tells nothing."""
        account = cls(path, prices)
        lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
        for line in lines:
            with suppress(ValueError):
                told = json.loads(line)
                account._counts[told["call"]] = told["usage"]
        return account

    def begin(self) -> int:
        """Count one more call and return its number."""
        with self._lock:
            number = max(self._counts, default=-1) + 1
            self._counts[number] = {}
            return number

    def give_back(self, call: int) -> None:
        """Do not count a call that was begun: it was not made."""
        with self._lock:
            del self._counts[call]

    def tell(self, call: int, usage: dict[str, int]) -> None:
        """Write down what a call has cost so far."""
        with self._lock:
            if self._counts[call] == usage:
                return
            self._counts[call] = dict(usage)
            line = json.dumps({"call": call, "usage": usage}) + "\n"
            with self.path.open("ab") as file:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())

    def spent(self) -> Spent:
        """Return what all calls cost together; one that was refused upstream cost nothing."""
        return sum(self._each(), Spent())

    def dearest(self) -> float:
        """Return the most USD that one of the calls cost."""
        return max((each.usd for each in self._each()), default=0.0)

    @property
    def calls(self) -> int:
        """How many calls were begun."""
        return len(self._counts)

    def _each(self) -> list[Spent]:
        with self._lock:
            told = [usage for usage in self._counts.values() if usage]
        counts = [Usage(*(usage.get(name, 0) for name in COUNTS)) for usage in told]
        return [each.spent(self.prices) for each in counts]
