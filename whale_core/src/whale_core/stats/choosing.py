"""What choosing does to the chosen score: optimism of selection, and "best on test"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen

from whale_core.keys import content_hash, generator
from whale_core.stats.intervals import Array

SHUFFLES = 2_000


@frozen
class Optimism:
    """Score of each winner when it was chosen minus its score on fresh examples, and their mean."""

    by_choice: tuple[float, ...]
    mean: float


def selection_optimism(chosen_by: Sequence[float], fresh: Sequence[float]) -> Optimism:
    """Compare winners' scores at selection with fresh ones. Raises ``ValueError`` on none."""
    if len(chosen_by) != len(fresh) or not len(fresh):
        raise ValueError("optimism needs a score at selection and a fresh one of each winner")
    gaps = tuple(float(old - new) for old, new in zip(chosen_by, fresh, strict=True))
    return Optimism(gaps, float(np.mean(gaps)))


def luck_of_the_best(scores: Array, shuffles: int = SHUFFLES) -> float:
    """Return by how much the best of m candidates would lead their mean, were all equally good.

    ``scores`` has shape (m, n): m candidates on the same n examples. What each example gave is
    dealt out anew among the candidates, ``shuffles`` times, and the best mean is taken: so it has
    the noise and the difficulty of the actual data and no difference between candidates. A function
    of ``scores`` alone. Raises ``ValueError`` on an empty array.
    """
    if scores.ndim != 2 or not scores.size:
        raise ValueError("scores must have shape (candidates, examples), neither 0")
    rng = generator("luck-of-the-best", content_hash(np.ascontiguousarray(scores).tobytes()))
    best = [rng.permuted(scores, axis=0).mean(1).max() for _ in range(shuffles)]
    return float(np.mean(best) - scores.mean())


@frozen
class BestOnTest:
    """The published headline: the best of several *by their test scores*.

    It is chosen on the split that it is reported on, so it is too high on average; ``label`` says
    so wherever it is shown. It decides nothing.
    """

    name: str
    mean: float
    of: int

    @property
    def label(self) -> str:
        """Return the words to show beside the figure."""
        return f"best of {self.of} on test (chosen on test: biased upwards)"


def best_on_test(scores: Mapping[str, float]) -> BestOnTest:
    """Return the one with the highest test mean, the first of equals.

    Raises ``ValueError`` on none.
    """
    if not scores:
        raise ValueError("no test scores")
    name = max(scores, key=lambda each: scores[each])
    return BestOnTest(name, scores[name], len(scores))
