"""The difference between two conditions, each of several seeds, on the same test examples.

Two things vary: the test's examples and the seeds. An interval over examples is about these seeds'
pairs; what holds of the conditions has to show against the seeds, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen

from whale_core.stats import (
    AcrossSeeds,
    Array,
    Interval,
    across_seeds,
    paired_difference,
    sign_flip_p,
)


@frozen
class Difference:
    """Condition a minus condition b on the test split.

    ``interval`` is paired by example, each example averaged over the seeds; ``across_seeds`` are
    the seeds' own differences, with a t interval from five on. ``p`` is two-sided: of the sign-flip
    test over examples, and where there are enough seeds for an interval the larger of that and the
    paired t test over seeds, so that a difference has to show against both. All but the counts are
    None where nothing is shared.
    """

    examples: int
    seeds: tuple[int, ...]
    interval: Interval | None = None
    across_seeds: AcrossSeeds | None = None
    p: float | None = None


def difference(
    a: Mapping[int, Mapping[str, float]], b: Mapping[int, Mapping[str, float]]
) -> Difference:
    """Compare two conditions on the seeds and test examples that both have.

    Args:
        a: by seed, each test example's mean over its draws.
        b: the same of the other condition.
    """
    seeds = tuple(sorted(a.keys() & b.keys()))
    runs = [each[seed] for each in (a, b) for seed in seeds]
    examples = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    if not examples:
        return Difference(0, seeds)
    first, second = (
        np.array([[each[seed][example] for example in examples] for seed in seeds])
        for each in (a, b)
    )
    by_seed = (first - second).mean(axis=1).tolist()
    told = across_seeds(dict(zip(seeds, by_seed, strict=True)))
    means = first.mean(axis=0), second.mean(axis=0)
    p = two_sided_p(means[0] - means[1])
    if told.interval is not None:
        p = max(p, paired_t_p(by_seed))
    return Difference(len(examples), seeds, paired_difference(*means), told, p)


def two_sided_p(differences: Array) -> float:
    """Return the two-sided p value of the sign-flip test: twice the smaller side."""
    return min(1.0, 2 * min(sign_flip_p(differences), sign_flip_p(-differences)))


def paired_t_p(differences: Sequence[float]) -> float:
    """Return the two-sided p value of a t test of one difference a seed against 0."""
    if max(differences) == min(differences):
        return 1.0 if differences[0] == 0 else 0.0
    from scipy import stats

    return float(stats.ttest_1samp(differences, 0.0).pvalue)
