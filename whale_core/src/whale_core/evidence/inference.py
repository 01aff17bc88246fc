"""The difference between two conditions, each of several seeds, on the same test examples.

Two things vary: the test's examples and the seeds. With a few seeds only the examples can be taken
for a sample, and what is said is about these seeds' runs; from five seeds on both are, and it is
about the conditions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen

from whale_core.stats import (
    ENOUGH,
    AcrossSeeds,
    Array,
    Interval,
    across_seeds,
    crossed_test,
    paired_difference,
    sign_flip_p,
)


@frozen
class Difference:
    """Condition a minus condition b on the test split.

    ``interval`` and the two-sided ``p`` are, from ``ENOUGH`` seeds on, of the test over seeds and
    examples together (``crossed_test``). With fewer they are of these seeds' runs: paired by
    example, each averaged over the seeds, and the sign-flip test over examples. ``across_seeds``
    are the seeds' own differences. ``left_out`` are examples that not every run scored. All but the
    counts are None where nothing is shared.
    """

    examples: int
    seeds: tuple[int, ...]
    interval: Interval | None = None
    across_seeds: AcrossSeeds | None = None
    p: float | None = None
    left_out: int = 0

    @property
    def of_conditions(self) -> bool:
        """Whether there are seeds enough to speak of the conditions, not of these runs alone."""
        return len(self.seeds) >= ENOUGH


def difference(
    a: Mapping[int, Mapping[str, float]], b: Mapping[int, Mapping[str, float]]
) -> Difference:
    """Compare two conditions on the seeds that both have and the test examples that all their runs
    have.

    Args:
        a: by seed, each test example's mean over its draws.
        b: the same of the other condition.
    """
    seeds = tuple(sorted(a.keys() & b.keys()))
    runs = [each[seed] for each in (a, b) for seed in seeds]
    examples = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    left_out = len(set().union(*runs)) - len(examples)
    if not examples:
        return Difference(0, seeds, left_out=left_out)
    first, second = (
        np.array([[each[seed][example] for example in examples] for seed in seeds])
        for each in (a, b)
    )
    by_seed = (first - second).mean(axis=1).tolist()
    told = across_seeds(dict(zip(seeds, by_seed, strict=True)))
    tested = crossed_test(first - second) if len(seeds) >= ENOUGH else None
    if tested is not None:
        return Difference(len(examples), seeds, tested.interval, told, tested.p, left_out)
    means = first.mean(axis=0), second.mean(axis=0)
    p = two_sided_p(means[0] - means[1])
    return Difference(len(examples), seeds, paired_difference(*means), told, p, left_out)


def two_sided_p(differences: Array) -> float:
    """Return the two-sided p value of the sign-flip test: twice the smaller side."""
    return min(1.0, 2 * min(sign_flip_p(differences), sign_flip_p(-differences)))
