"""A paired difference where seeds and examples both vary, and every seed has every example."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from whale_core.stats.intervals import Array, Interval


@frozen
class CrossedTest:
    """The mean difference with its interval, and the two-sided p value of the same statistic."""

    interval: Interval
    p: float


def crossed_test(differences: Array, confidence: float = 0.95) -> CrossedTest | None:
    """Test differences of shape (seeds, examples) against 0, both taken for samples.

    Student's t of ``crossed_variance``. None where there are not two of both, or nothing varies.
    """
    if min(differences.shape) < 2:
        return None
    mean, variance, freedom = (float(each) for each in crossed_variance(differences))
    if variance <= 1e-15:
        return None
    from scipy import special  # slow to import, and not every caller gets here

    error = np.sqrt(variance)
    half = float(special.stdtrit(freedom, (1 + confidence) / 2) * error)
    p = float(2 * special.stdtr(freedom, -abs(mean) / error))
    return CrossedTest(Interval(mean, mean - half, mean + half), p)


def crossed_variance(differences: Array) -> tuple[Array, Array, Array]:
    """Return the mean, the variance of the mean, and its degrees of freedom.

    ``differences`` has shape (..., S, n): S seeds crossed with n examples, at least two of both.
    With the mean squares of a two-way layout the variance is (seeds + examples - rest) / (S n):
    that of the seeds' means over S, plus that of the examples' means over n, less what each holds
    of the rest (draws, and what a seed does on one example), which would count twice (Scheffé 1959,
    chapter 7). It is never less than either part alone, nor are the degrees of freedom
    (Satterthwaite 1946) fewer than S - 1: by these two the level is kept where one part is 0
    (docs/statistics.md).
    """
    seeds, examples = differences.shape[-2:]
    mean = differences.mean((-2, -1))
    by_seed = examples * differences.mean(-1).var(-1, ddof=1)
    by_example = seeds * differences.mean(-2).var(-1, ddof=1)
    whole = np.square(differences - mean[..., None, None]).sum((-2, -1))
    left = (seeds - 1) * (examples - 1)
    rest = np.maximum(whole - (seeds - 1) * by_seed - (examples - 1) * by_example, 0.0) / left
    total = np.maximum(by_seed + by_example - rest, np.maximum(by_seed, by_example))
    spread = by_seed**2 / (seeds - 1) + by_example**2 / (examples - 1) + rest**2 / left
    freedom = np.divide(total**2, spread, where=spread > 0, out=np.ones_like(mean))
    return mean, total / (seeds * examples), np.maximum(freedom, seeds - 1)
