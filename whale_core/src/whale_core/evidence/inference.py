"""What a comparison asks of statistics: intervals, p values and curves across seeds.

Two things vary: the test's examples and the seeds. An interval over examples is about these seeds'
pairs; one over seeds needs five of them (a t interval on fewer is wider than it is worth).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from attrs import frozen

from whale_core.stats import Array, Interval, paired_difference, sign_flip_p

SEEDS_FOR_INTERVAL = 5


@frozen
class Difference:
    """Condition a minus condition b on the test split.

    ``interval`` is paired by example, each example averaged over the seeds; ``across_seeds`` is a t
    interval of the seeds' differences. ``p`` is two-sided: of the sign-flip test over examples,
    and from five seeds on the larger of that and the paired t test over seeds, so that a
    difference has to show against both.
    """

    examples: int
    seeds: tuple[int, ...]
    by_seed: tuple[float, ...]
    interval: Interval | None
    across_seeds: Interval | None
    p: float | None


def seed_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return mean and t interval of one value a seed; None for fewer than five seeds."""
    n = len(values)
    if n < SEEDS_FOR_INTERVAL:
        return None
    from scipy import stats  # seconds to import on a busy machine

    mean = fmean(values)
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def difference(
    a: Mapping[int, Mapping[str, float]], b: Mapping[int, Mapping[str, float]], draws: int
) -> Difference:
    """Compare two conditions on the seeds and test examples that both have.

    Args:
        a: by seed, each test example's mean over its draws.
        b: the same of the other condition.
        draws: how many draws of an example each mean is of (the fewer, where they differ).
    """
    seeds = tuple(sorted(a.keys() & b.keys()))
    runs = [each[seed] for each in (a, b) for seed in seeds]
    examples = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    if not examples:
        return Difference(0, seeds, (), None, None, None)
    first, second = (
        np.array([[each[seed][example] for example in examples] for seed in seeds])
        for each in (a, b)
    )
    by_seed = tuple(float(each) for each in (first - second).mean(axis=1))
    means = first.mean(axis=0), second.mean(axis=0)
    p = two_sided_p(means[0] - means[1])
    if len(seeds) >= SEEDS_FOR_INTERVAL:
        p = max(p, paired_t_p(by_seed))
    return Difference(
        examples=len(examples),
        seeds=seeds,
        by_seed=by_seed,
        interval=paired_difference(*means, draws * len(seeds)),
        across_seeds=seed_interval(by_seed),
        p=p,
    )


def two_sided_p(differences: Array) -> float:
    """Return the two-sided p value of the sign-flip test: twice the smaller side."""
    return min(1.0, 2 * min(sign_flip_p(differences), sign_flip_p(-differences)))


def paired_t_p(differences: Sequence[float]) -> float:
    """Return the two-sided p value of a t test of one difference a seed against 0."""
    if max(differences) == min(differences):
        return 1.0 if differences[0] == 0 else 0.0
    from scipy import stats

    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted for several comparisons (Holm 1979), in the same order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


@frozen
class CurvePoint:
    """A curve at so many rollouts: mean over seeds, and the band: a t interval from five seeds on,
    else the lowest and the highest seed."""

    rollouts: int
    mean: float
    low: float
    high: float


def curve(runs: Sequence[Sequence[tuple[int, float]]]) -> list[CurvePoint]:
    """Return the mean over seeds of step functions, at each place where one of them steps.

    Args:
        runs: by seed, rollouts spent and what was measured then, in that order.
    """
    runs = [run for run in runs if run]
    if not runs:
        return []
    first = max(run[0][0] for run in runs)
    places = sorted({at for run in runs for at, _ in run if at >= first} | {first})
    return [_curve_point(place, [_value_at(run, place) for run in runs]) for place in places]


def rollouts_to_match(points: Sequence[CurvePoint], target: float) -> int | None:
    """Return after how many rollouts a curve first reaches ``target``; None if it never does."""
    return next((point.rollouts for point in points if point.mean >= target - 1e-12), None)


def _value_at(run: Sequence[tuple[int, float]], place: int) -> float:
    return [value for at, value in run if at <= place][-1]


def _curve_point(place: int, values: Sequence[float]) -> CurvePoint:
    band = seed_interval(values) or Interval(fmean(values), min(values), max(values))
    return CurvePoint(place, band.mean, band.low, band.high)
