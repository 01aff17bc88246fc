"""Which gain can a paired comparison see, and how surely would it see a given one?

The model: both sides draw ``draws`` times on the same ``examples``. Of one side, two draws on one
example correlate by ``correlation`` (some examples are easy, others hopeless). ``shared`` says
whether an example is as easy for the other side too, or has nothing to do with it.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from whale_core.stats.intervals import Array

LEVEL = 0.05  # two-sided
POWER = 0.8


def difference_variance(
    base: float, gain: float, draws: int, correlation: float, *, shared: bool = True
) -> float:
    """Return the variance of one example's paired difference.

    With v and w the variances p (1 - p) of one draw on both sides:
    (v + w) ((1 - ρ) / k + ρ), less 2 ρ √(v w) where the difficulty is shared.
    """
    v, w = base * (1 - base), (base + gain) * (1 - base - gain)
    variance = (v + w) * ((1 - correlation) / draws + correlation)
    return variance - 2 * correlation * math.sqrt(v * w) if shared else variance


def power_of(
    examples: int,
    draws: int,
    base: float,
    gain: float,
    correlation: float = 0.0,
    *,
    shared: bool = True,
) -> float:
    """Return the chance that a true ``gain`` over ``base`` is seen: that the paired 95 % interval
    lies above 0 (normal approximation). Raises ``ValueError`` where a rate is not in [0, 1]."""
    _check(examples, draws, base, correlation)
    if not 0 <= base + gain <= 1:
        raise ValueError(f"a gain of {gain:g} over {base:g} leaves [0, 1]")
    normal = NormalDist()
    variance = difference_variance(base, gain, draws, correlation, shared=shared) / examples
    if variance <= 0:
        return 1.0 if gain > 0 else 0.0
    return normal.cdf(gain / math.sqrt(variance) - normal.inv_cdf(1 - LEVEL / 2))


def detectable_gain(
    examples: int,
    draws: int,
    base: float,
    correlation: float = 0.0,
    *,
    shared: bool = True,
    power: float = POWER,
) -> float | None:
    """Return the smallest gain over ``base`` that is seen with ``power``; None where even a rise
    to 1 is not. Raises ``ValueError`` on sizes or rates out of range."""
    _check(examples, draws, base, correlation)

    def seen(gain: float) -> bool:
        return power_of(examples, draws, base, gain, correlation, shared=shared) >= power

    low, high = 0.0, 1.0 - base
    if not seen(high) or high <= 0:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high


def draw_correlation(example_means: Array, draws: int) -> float | None:
    """Return the correlation of two draws on one example, estimated from means over ``draws``.

    By moments: Var(mean) = p (1 - p) ((1 - ρ) / k + ρ), at least 0. None where it cannot be: one
    draw an example, one example, or all examples alike.
    """
    n, p = len(example_means), float(np.mean(example_means)) if len(example_means) else 0.0
    if draws < 2 or n < 2 or not 1e-12 < p < 1 - 1e-12:
        return None
    ratio = float(np.var(example_means, ddof=1)) / (p * (1 - p))
    return min(1.0, max(0.0, (draws * ratio - 1) / (draws - 1)))


def _check(examples: int, draws: int, base: float, correlation: float) -> None:
    if examples < 2 or draws < 1:
        raise ValueError("at least two examples and one draw are needed")
    if not 0 <= base <= 1:
        raise ValueError(f"a base rate must be in [0, 1], not {base:g}")
    if not 0 <= correlation <= 1:
        raise ValueError(f"a correlation of draws must be in [0, 1], not {correlation:g}")
