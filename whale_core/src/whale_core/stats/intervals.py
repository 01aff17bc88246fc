"""An interval of a mean score that holds near 0 and 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import frozen

Array = npt.NDArray[np.float64]


@frozen
class Interval:
    """A mean with its two-sided confidence interval."""

    mean: float
    low: float
    high: float


def critical_value(examples: int, confidence: float = 0.95) -> float:
    """Return Student's two-sided critical value with ``examples`` - 1 degrees of freedom."""
    from scipy import special  # slow to import, and not every caller gets here

    return float(special.stdtrit(max(examples - 1, 1), (1 + confidence) / 2))


def mean_interval(example_means: Array, draws: int = 1, confidence: float = 0.95) -> Interval:
    """Return the mean over examples with a Wilson score interval at the effective sample size.

    That is the number of independent yes/no draws with the same variance of the mean,
    ``p (1 - p) / Var(mean)`` (Korn and Graubard 1998), at most all ``draws`` of all examples.
    ``example_means`` has shape (n,), values in [0, 1]: means over ``draws`` draws. Examples are the
    independent unit; draws of one example are not. The critical value is Student's t with n - 1
    degrees of freedom. Raises ``ValueError`` on no examples.
    """
    n = len(example_means)
    if n == 0:
        raise ValueError("no scored examples: there is no mean")
    mean = np.array([np.mean(example_means)])
    variance = np.array([np.var(example_means, ddof=1) if n > 1 else 0.0])
    low, high = mean_limits(mean, variance, n, draws, critical_value(n, confidence))
    return Interval(float(mean[0]), float(low[0]), float(high[0]))


def mean_limits(
    means: Array, variances: Array, n: int, draws: int, critical: float
) -> tuple[Array, Array]:
    """Return the lower and upper limits of ``mean_interval`` for many samples of ``n`` examples.

    ``means`` and ``variances`` (over examples, unbiased) have shape (samples,). The limit on the
    side of 1/2 does not fully trust an estimate of how alike an example's draws are that comes from
    few examples: with p near 0 and a handful of passes, that they fall on different examples says
    little. There the design effect is moved towards that of draws all alike, by the weight
    1 / (1 + (2 n p (1 - p))^2), chosen by simulation (docs/statistics.md).
    """
    spread = means * (1 - means)
    estimated = _design(means, variances, draws)
    trust = np.square(2 * n * spread)
    cautious = np.where(estimated < 1, (trust * estimated + 1) / (trust + 1), estimated)
    below = np.where(means > 0.5, cautious, estimated)
    above = np.where(means <= 0.5, cautious, estimated)
    return _wilson(means, n / below, critical)[0], _wilson(means, n / above, critical)[1]


def _design(means: Array, variances: Array, draws: int) -> Array:
    """Return the variance of an example's mean as a share of that of draws that are all alike."""
    spread = means * (1 - means)
    estimable = (variances > 1e-12) & (spread > 1e-12)
    ratio = np.divide(variances, spread, where=estimable, out=np.ones_like(means))
    return np.maximum(ratio, 1 / draws)


def _wilson(means: Array, sizes: Array, critical: float) -> tuple[Array, Array]:
    """Return Wilson's score limits at sample sizes that need not be whole."""
    square = critical * critical / sizes
    centre = (means + square / 2) / (1 + square)
    reach = np.sqrt(means * (1 - means) * square + square * square / 4) / (1 + square)
    return np.maximum(0.0, centre - reach), np.minimum(1.0, centre + reach)
