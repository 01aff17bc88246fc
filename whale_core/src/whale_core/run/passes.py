"""Draws that passed, by example, and what they say of the best of several draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import comb
from statistics import fmean

from whale_core.records import Outcome, Trajectory

Passes = Mapping[str, tuple[int, int]]  # example id -> passed, scored


def count_passes(made: Iterable[Trajectory]) -> dict[str, tuple[int, int]]:
    """Return by example how many of its scored draws passed, and how many there are."""
    counts: dict[str, tuple[int, int]] = {}
    for each in made:
        if each.outcome is not Outcome.NOT_SCORED:
            passed, scored = counts.get(each.example_id, (0, 0))
            counts[each.example_id] = passed + (each.outcome is Outcome.PASS), scored + 1
    return counts


def pass_at(k: int, passed: int, scored: int) -> float:
    """Return the unbiased estimate of the chance that one of ``k`` draws passes.

    ``1 - C(n - c, k) / C(n, k)`` (Chen et al. 2021, arXiv:2107.03374, equation 1), k <= n.
    """
    return 1.0 - comb(scored - passed, k) / comb(scored, k)


def pass_table(passes: Passes, draws: int) -> dict[str, float]:
    """Return pass@k, the mean over examples, for k = 1, 2, 4, … and ``draws``.

    Examples with fewer scored draws than k are left out of that mean.
    """
    sizes = sorted({1 << power for power in range(draws.bit_length())} | {draws})
    table = {}
    for k in (size for size in sizes if size <= draws):
        found = [pass_at(k, c, n) for c, n in passes.values() if n >= k]
        if found:
            table[str(k)] = fmean(found)
    return table
