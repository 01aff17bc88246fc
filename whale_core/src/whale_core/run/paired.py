"""Example means of several measurements on the examples that all have: how gains are paired."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from whale_core.stats import Array


def paired(*means: Mapping[str, float]) -> tuple[Array, ...]:
    """Return each of ``means`` (by example) on the examples that all have: arrays of one shape
    (n,), in the order of the examples' ids; n is 0 where they share none."""
    shared = sorted(set.intersection(*(set(each) for each in means)))
    return tuple(np.array([each[example] for example in shared]) for each in means)
