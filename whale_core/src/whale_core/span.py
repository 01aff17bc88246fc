"""Counts that are known beforehand only within bounds: what a plan is made of."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add

from attrs import frozen


@frozen
class Span:
    """From ``least`` to ``most``, which is None where nobody can say."""

    least: int
    most: int | None

    @classmethod
    def exactly(cls, count: int) -> Span:
        """Return the span of a count that is known."""
        return cls(count, count)

    @property
    def exact(self) -> bool:
        """Whether both bounds are the same."""
        return self.least == self.most

    @property
    def known(self) -> int:
        """The most, or the least where nobody knows the most."""
        return self.least if self.most is None else self.most

    def __add__(self, other: Span) -> Span:
        """Return the span of both together."""
        most = None if self.most is None or other.most is None else self.most + other.most
        return Span(self.least + other.least, most)

    def __mul__(self, other: Span | int) -> Span:
        """Return the span of so many times this. Nothing known times zero is zero."""
        times = Span.exactly(other) if isinstance(other, int) else other
        most: int | None = 0
        if 0 not in (self.most, times.most):
            unknown = self.most is None or times.most is None
            most = None if unknown else (self.most or 0) * (times.most or 0)
        return Span(self.least * times.least, most)

    def scaled(self, low: float, high: float | None = None) -> Span:
        """Return the whole number of units at ``low`` (the most: ``high``) units each."""
        each = low if high is None else high
        return Span(round(self.least * low), None if self.most is None else round(self.most * each))


ZERO = Span.exactly(0)
UNKNOWN = Span(0, None)


def total(spans: Iterable[Span]) -> Span:
    """Return the sum of some spans."""
    return reduce(add, spans, ZERO)
