"""Intervals and paired comparisons that hold near 0 and 1.

All take per-example means over k draws: arrays of shape (n,) in [0, 1]. Examples are the
independent unit; draws of one example are not.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from whale_core.keys import content_hash, generator

Array = npt.NDArray[np.float64]
FLIPS = 9_999


@frozen
class Interval:
    """A mean with its two-sided confidence interval."""

    mean: float
    low: float
    high: float


def effective_size(example_means: Array, draws: int = 1) -> float:
    """Return the number of independent yes/no draws with the same variance of the mean.

    ``p (1 - p) / Var(mean)`` where the variance is estimated over examples (Korn and Graubard's
    effective sample size), at most all ``draws`` of all examples. Where it cannot be estimated (all
    examples alike) it is the number of examples.
    """
    n = len(example_means)
    p = float(np.mean(example_means))
    variance = float(np.var(example_means, ddof=1)) / n if n > 1 else 0.0
    if variance <= 0.0 or p in (0.0, 1.0):
        return float(n)
    return min(p * (1 - p) / variance, float(n * draws))


def mean_interval(example_means: Array, draws: int = 1, confidence: float = 0.95) -> Interval:
    """Return the mean over examples with a Wilson score interval at the effective sample size.

    The critical value is Student's t with n - 1 degrees of freedom. Raises ``ValueError`` on no
    examples.
    """
    n = len(example_means)
    if n == 0:
        raise ValueError("no scored examples: there is no mean")
    p = float(np.mean(example_means))
    size = effective_size(example_means, draws)
    from scipy import stats  # seconds to import on a busy machine, and not every caller gets here

    t = float(stats.t.ppf((1 + confidence) / 2, max(n - 1, 1)))
    centre = (p + t * t / (2 * size)) / (1 + t * t / size)
    half = t / (1 + t * t / size) * np.sqrt(p * (1 - p) / size + t * t / (4 * size * size))
    return Interval(p, max(0.0, float(centre - half)), min(1.0, float(centre + half)))


def paired_difference(a: Array, b: Array, draws: int = 1, confidence: float = 0.95) -> Interval:
    """Return mean(a) - mean(b) over the same examples with a 95 % interval (Newcombe's method).

    The two Wilson intervals are combined square-and-add with the correlation of the paired
    example means (Newcombe 1998, method 10, on effective sample sizes).
    """
    if len(a) != len(b) or len(a) == 0:
        raise ValueError("a paired difference needs the same, at least one, examples on both sides")
    first, second = mean_interval(a, draws, confidence), mean_interval(b, draws, confidence)
    r = float(np.corrcoef(a, b)[0, 1]) if np.std(a) > 0 and np.std(b) > 0 else 0.0
    difference = first.mean - second.mean

    def reach(own: float, other: float) -> float:
        return float(np.sqrt(max(0.0, own * own + other * other - 2 * r * own * other)))

    low = difference - reach(first.mean - first.low, second.high - second.mean)
    high = difference + reach(first.high - first.mean, second.mean - second.low)
    return Interval(difference, max(-1.0, low), min(1.0, high))


def exceeds_chance(passed: int, trials: int, chance: float) -> float:
    """Return the one-sided exact binomial p-value of at least ``passed`` of ``trials``."""
    from scipy import stats

    return float(stats.binomtest(passed, trials, chance, alternative="greater").pvalue)


def sign_flip_p(differences: Array) -> float:
    """Return the one-sided p-value of paired differences having a mean above 0.

    A sign-flip (Fisher randomisation) test: under the null, each difference is as likely as its
    negative. Exact where the differences are whole multiples of 1/q, q <= 64 (means of up to 64
    right-or-wrong draws); for differences of -1, 0 and 1 it is McNemar's exact test. Others are
    compared with ``FLIPS`` random assignments of signs, itself one of them (Phipson and Smyth
    2010), a function of the differences alone.
    """
    differences = differences[differences != 0]
    if not len(differences):
        return 1.0
    for grid in range(1, 65):
        whole = np.rint(differences * grid)
        if np.allclose(differences * grid, whole, rtol=0.0, atol=1e-9):
            return _exact_flips(whole.astype(np.int64))
    seed = content_hash(np.sort(differences).tobytes())
    signs = generator("sign-flip", seed).integers(0, 2, (FLIPS, len(differences))) * 2 - 1
    above = np.count_nonzero(signs @ differences >= differences.sum() - 1e-12)
    return float(1 + above) / (1 + FLIPS)


def _exact_flips(differences: npt.NDArray[np.int64]) -> float:
    """Return the share of all assignments of signs whose sum is no smaller than the one given."""
    sizes, counts = np.unique(np.abs(differences), return_counts=True)
    shares = np.ones(1)  # by sum, from the smallest possible one on
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        steps = np.zeros(2 * size * count + 1)  # of the sum of these alone, -size*count to +…
        steps[:: 2 * size] = [math.comb(count, k) / 2**count for k in range(count + 1)]
        shares = np.convolve(shares, steps)
    most = int((sizes * counts).sum())
    return float(min(1.0, shares[int(differences.sum()) + most :].sum()))
