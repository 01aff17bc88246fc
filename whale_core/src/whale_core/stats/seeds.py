"""Across seeds: every seed is shown, and an interval only where there are enough of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen

from whale_core.stats.intervals import Interval, critical_value

ENOUGH = 5  # seeds for a t interval


@frozen
class AcrossSeeds:
    """A figure by seed, its mean, and Student's t interval (None with fewer than ``ENOUGH``)."""

    by_seed: Mapping[int, float]
    mean: float
    interval: Interval | None


def across_seeds(by_seed: Mapping[int, float], confidence: float = 0.95) -> AcrossSeeds:
    """Summarise one figure of several runs. Raises ``ValueError`` where there is no seed."""
    if not by_seed:
        raise ValueError("no seeds: there is no mean")
    values = np.array([by_seed[seed] for seed in sorted(by_seed)])
    mean = float(values.mean())
    interval = None
    if len(values) >= ENOUGH:
        half = critical_value(len(values), confidence) * values.std(ddof=1) / np.sqrt(len(values))
        interval = Interval(mean, float(mean - half), float(mean + half))
    return AcrossSeeds({seed: by_seed[seed] for seed in sorted(by_seed)}, mean, interval)
