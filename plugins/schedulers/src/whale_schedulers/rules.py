"""Stopping rules that schedulers of this package share."""

from __future__ import annotations

from attrs import define, field
from attrs.validators import ge


@define
class FixedCount:
    """Ends a phase after ``count`` steps or iterations, whatever their signals are."""

    count: int = field(validator=ge(1))
    _seen: int = field(default=0, init=False, eq=False, repr=False)

    def observe(self, signal: float) -> bool:
        """Take one more signal; return True at the ``count``-th."""
        self._seen += 1
        return self._seen >= self.count

    def planned(self) -> int | None:
        """Return ``count``: the length is known beforehand."""
        return self.count
