"""Two conditions on the same examples: the difference with its interval, and tests."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from whale_core.keys import content_hash, generator
from whale_core.stats.intervals import Array, Interval, critical_value

FLIPS = 9_999
HALVINGS = 50  # of an interval of length 2: to 2e-15


def paired_difference(a: Array, b: Array, *, confidence: float = 0.95) -> Interval:
    """Return mean(a) - mean(b) over the same examples, with a score interval.

    ``a`` and ``b`` have shape (n,): means over any number of draws, in [0, 1]. For one right or
    wrong draw an example this is Tango's score interval (1998), with Student's critical value; for
    others see ``difference_limits``. Raises ``ValueError`` on different lengths or no examples.
    """
    if len(a) != len(b) or len(a) == 0:
        raise ValueError("a paired difference needs the same, at least one, examples on both sides")
    n, d = len(a), np.asarray(a, float) - np.asarray(b, float)
    sums = [np.array([each]) for each in (d[d > 0].sum(), -d[d < 0].sum(), np.square(d).sum())]
    low, high = difference_limits(sums[0], sums[1], sums[2], n, critical_value(n, confidence))
    return Interval(float(np.mean(a) - np.mean(b)), float(low[0]), float(high[0]))


def difference_limits(
    won: Array, lost: Array, squares: Array, n: int, critical: float
) -> tuple[Array, Array]:
    """Return the limits of ``paired_difference`` for many samples of ``n`` examples.

    ``won`` and ``lost`` are the sums of the positive differences and of the negative ones (as
    positive numbers), ``squares`` the sum of all squared; each of shape (samples,). In units of the
    typical size of a difference that is not zero, ``squares / (won + lost)``, won and lost are
    effective counts of examples that differ by one such unit, with the same mean and the same
    variance; Tango's interval is of those counts.
    """
    moved = won + lost
    unit = np.divide(squares, moved, where=moved > 1e-12, out=np.ones_like(moved))
    up, down = won / unit, lost / unit
    return unit * _score_limit(up, down, n, critical, -1), unit * _score_limit(
        up, down, n, critical, 1
    )


def _score_limit(up: Array, down: Array, n: int, critical: float, side: int) -> Array:
    """Return where Tango's score statistic of a difference reaches the critical value.

    Under a true difference ``delta`` the maximum likelihood estimate of the share of losses solves
    a quadratic equation (Tango 1998, appendix); the limit is found by halving.
    """
    estimate = np.clip((up - down) / n, -1.0, 1.0)
    inner, outer = estimate, np.full_like(estimate, float(side))
    for _ in range(HALVINGS):
        delta = (inner + outer) / 2
        b = (2 * n - up + down) * delta - up - down
        c = -down * delta * (1 - delta)
        losses = (np.sqrt(np.maximum(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        variance = np.maximum(n * (2 * losses + delta * (1 - delta)), 0.0)
        inside = np.abs(up - down - n * delta) < critical * np.sqrt(variance)
        inner, outer = np.where(inside, delta, inner), np.where(inside, outer, delta)
    return (inner + outer) / 2


def exceeds_chance(passed: int, trials: int, chance: float) -> float:
    """Return the one-sided exact binomial p-value of at least ``passed`` of ``trials``."""
    from scipy import stats  # seconds to import on a busy machine, and not every caller gets here

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
