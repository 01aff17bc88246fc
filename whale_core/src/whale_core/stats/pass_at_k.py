"""pass@k: how likely is at least one of k draws right?"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from whale_core.stats.intervals import Array, Interval, mean_interval

Counts = npt.NDArray[np.int64]


def pass_at_k(passed: int, draws: int, k: int) -> float:
    """Return the unbiased estimate of pass@k of one example (Chen et al. 2021, equation 1).

    ``1 - C(draws - passed, k) / C(draws, k)``: the share of all choices of k of its draws with a
    right one among them. Raises ``ValueError`` where k or passed is not in range.
    """
    if not 1 <= k <= draws or not 0 <= passed <= draws:
        raise ValueError(f"pass@{k} of {passed} right among {draws} draws is not defined")
    return 1.0 - math.comb(draws - passed, k) / math.comb(draws, k)


def mean_pass_at_k(passed: Counts, draws: Counts, k: int, confidence: float = 0.95) -> Interval:
    """Return pass@k over examples with an interval.

    ``passed`` and ``draws`` have shape (n,). Examples are the independent unit; an example counts
    for at most ``draws // k`` independent tries. Raises ``ValueError`` on no examples, or where an
    example has fewer than k draws.
    """
    pairs = zip(passed.tolist(), draws.tolist(), strict=True)
    values: Array = np.array([pass_at_k(right, of, k) for right, of in pairs])
    tries = int(draws.max()) // k if len(draws) else 1
    return mean_interval(values, max(1, tries), confidence)
