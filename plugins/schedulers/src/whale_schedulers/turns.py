"""Weight phases and searches of lengths that are known beforehand, in turns."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from whale_core.roles import HarnessPhase, Phase, PhaseResult, WeightPhase
from whale_schedulers.rules import FixedCount


def turns(
    lengths: Iterable[int], iterations: int, *, before: bool = False, after: bool = False
) -> Generator[Phase, PhaseResult, None]:
    """Yield weight phases of ``lengths`` steps and, between any two, a search of ``iterations``.

    ``before`` puts one more search before the first weight phase, ``after`` one after the last.
    What comes of the phases changes nothing.
    """
    for index, steps in enumerate(lengths):
        if index or before:
            yield HarnessPhase(until=FixedCount(iterations))
        yield WeightPhase(until=FixedCount(steps))
    if after:
        yield HarnessPhase(until=FixedCount(iterations))
