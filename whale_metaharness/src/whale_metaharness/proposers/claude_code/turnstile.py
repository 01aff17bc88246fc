"""Lets a session's calls through, few at a time, while they are within its limits."""

from __future__ import annotations

import math
import threading

from attrs import define, field

from whale_metaharness.proposers.claude_code.account import Account

PLACES = 4  # calls under way at a time
SPENT = "this session has spent what it may"
MADE = "this session has made the calls it may"
OVER = "this session is over"


class Shut(Exception):
    """The reason for which a call may not be made."""


@define
class Turnstile:
    """Counts a call before it is made, under one lock, so that calls at the same time cannot pass
    a limit together.

    What a call will cost is not known before its end. One may be made beside others only if all of
    them have room below the limit at the price of the dearest so far; else it waits for one to end.
    """

    account: Account
    turns: int
    usd: float
    _free: threading.Condition = field(factory=threading.Condition, init=False, repr=False)
    _under_way: int = field(default=0, init=False)
    _open: bool = field(default=True, init=False)

    def look(self) -> None:
        """Raise ``Shut`` if the limits are reached."""
        if not self._open:
            raise Shut(OVER)
        if self.account.spent().usd >= self.usd:
            raise Shut(SPENT)
        if self.account.calls >= self.turns:
            raise Shut(MADE)

    def enter(self) -> int:
        """Return the number of a call that may be made now; ``leave`` when it has ended.

        Raises:
            Shut: the limits are reached.
        """
        with self._free:
            while self._open and self._under_way and not self._has_room():
                self._free.wait()
            self.look()
            self._under_way += 1
            return self.account.begin()

    def leave(self, call: int, made: bool) -> None:
        """Let the next one in; a call that was not ``made`` is given back."""
        with self._free:
            self._under_way -= 1
            if not made:
                self.account.give_back(call)
            self._free.notify_all()

    def close(self) -> None:
        """Let nobody in any more, not even those who wait."""
        with self._free:
            self._open = False
            self._free.notify_all()

    def _has_room(self) -> bool:
        if self._under_way >= PLACES or self.account.calls >= self.turns:
            return False
        if math.isinf(self.usd):
            return True
        spent, dearest = self.account.spent().usd, self.account.dearest()
        return dearest > 0 and spent + (self._under_way + 1) * dearest <= self.usd
