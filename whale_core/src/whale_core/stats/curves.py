"""Curves over rollouts: best so far by selection, bands over seeds, rollouts to match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import field, frozen

from whale_core.stats.intervals import Array
from whale_core.stats.seeds import ENOUGH, across_seeds


@frozen(eq=False)
class Curve:
    """A step function: from ``rollouts[i]`` spent on, the value is ``values[i]``.

    Both have shape (points,), at least one; ``rollouts`` rises strictly. Before the first point the
    value is not defined (nan).
    """

    rollouts: Array = field(converter=np.asarray)
    values: Array = field(converter=np.asarray)

    def __attrs_post_init__(self) -> None:
        """Raise ``ValueError`` on what is no step function."""
        if len(self.rollouts) != len(self.values) or not len(self.values):
            raise ValueError("a curve needs as many values as points, at least one")
        if np.any(np.diff(self.rollouts) <= 0):
            raise ValueError("the points of a curve must be in rising order of rollouts")

    def at(self, rollouts: Array) -> Array:
        """Return the values at ``rollouts``."""
        places = np.searchsorted(self.rollouts, rollouts, side="right") - 1
        return np.where(places < 0, np.nan, self.values[np.maximum(places, 0)])

    def first_at_least(self, value: float) -> float | None:
        """Return the rollouts at which the curve first reaches ``value``; None where never."""
        reached = np.flatnonzero(self.values >= value - 1e-12)
        return float(self.rollouts[reached[0]]) if len(reached) else None


def best_so_far(
    rollouts: Sequence[float], selection: Sequence[float], shown: Sequence[float] | None = None
) -> Curve:
    """Return the score of the pair that one would take if the run ended there.

    ``selection`` are the scores on the selection split by which pairs are chosen, in the order they
    were made, ``rollouts`` what had been spent by then. ``shown`` are the scores to draw (another
    split's; default the selection scores). The first of equal pairs is kept. Of several pairs at
    one number of rollouts the last state counts.
    """
    values = selection if shown is None else shown
    best = -np.inf
    current = np.nan
    points: dict[float, float] = {}
    for spent, score, value in zip(rollouts, selection, values, strict=True):
        if score > best:
            best, current = score, value
        points[float(spent)] = float(current)
    return Curve(np.array(list(points)), np.array(list(points.values())))


@frozen(eq=False)
class Band:
    """The mean of several seeds' curves, from the first point that all have.

    ``low`` and ``high`` are a pointwise 95 % t interval where ``is_interval``, else (fewer than
    five seeds) the lowest and the highest seed.
    """

    rollouts: Array
    mean: Array
    low: Array
    high: Array
    seeds: int
    is_interval: bool


def average(curves: Sequence[Curve], confidence: float = 0.95) -> Band:
    """Average the curves of several seeds at every point where one of them changes.

    A curve keeps its last value after its end. Raises ``ValueError`` where there is none.
    """
    if not curves:
        raise ValueError("no curves to average")
    start = max(float(curve.rollouts[0]) for curve in curves)
    points = np.unique(np.concatenate([curve.rollouts for curve in curves]))
    points = points[points >= start]
    values = np.stack([curve.at(points) for curve in curves])
    low, high = values.min(0), values.max(0)
    enough = len(curves) >= ENOUGH
    if enough:
        columns = [across_seeds(dict(enumerate(each)), confidence) for each in values.T.tolist()]
        intervals = [each.interval for each in columns if each.interval is not None]
        low = np.array([each.low for each in intervals])
        high = np.array([each.high for each in intervals])
    return Band(points, values.mean(0), low, high, len(curves), enough)


@frozen
class Match:
    """How soon one condition's curve reaches the best value of another's.

    ``target`` is the other's best value and ``other_rollouts`` what it had spent when it first had
    it; ``rollouts`` what this one had spent when it first had as much (None: never, within its
    ``spent``). ``share`` is their ratio, None where never. (The published 5.79 % is such a share.)
    """

    target: float
    other_rollouts: float
    rollouts: float | None
    spent: float
    share: float | None


def rollouts_to_match(curve: Curve, other: Curve) -> Match:
    """Return the rollouts at which ``curve`` first reaches the best value of ``other``."""
    target = float(other.values.max())
    needed = other.first_at_least(target)
    assert needed is not None
    reached = curve.first_at_least(target)
    share = None if reached is None else (reached / needed if needed > 0 else 1.0)
    return Match(target, needed, reached, float(curve.rollouts[-1]), share)


@frozen
class Matches:
    """``Match`` by seed; how many reached; and the median share, a seed that never reached counting
    as more than any number (None where the median seed never reached)."""

    by_seed: Mapping[int, Match]
    reached: int
    median_share: float | None


def matches_across_seeds(curves: Mapping[int, Curve], others: Mapping[int, Curve]) -> Matches:
    """Match the curves seed by seed, over the seeds that both have.

    Raises ``ValueError`` where there is none.
    """
    both = sorted(curves.keys() & others.keys())
    if not both:
        raise ValueError("no seed has both curves")
    found = {seed: rollouts_to_match(curves[seed], others[seed]) for seed in both}
    shares = [np.inf if each.share is None else each.share for each in found.values()]
    shares.sort()
    middle = (shares[(len(shares) - 1) // 2] + shares[len(shares) // 2]) / 2
    reached = sum(each.rollouts is not None for each in found.values())
    return Matches(found, reached, float(middle) if np.isfinite(middle) else None)
