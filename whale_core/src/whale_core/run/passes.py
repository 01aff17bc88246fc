"""Draws that passed, by example, and what they say of the best of several draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from whale_core.records import Outcome, Trajectory
from whale_core.stats import pass_at_k

Passes = Mapping[str, tuple[int, int]]  # example id -> passed, scored


def count_passes(made: Iterable[Trajectory]) -> dict[str, tuple[int, int]]:
    """Return by example how many of its scored draws passed, and how many there are."""
    counts: dict[str, tuple[int, int]] = {}
    for each in made:
        if each.outcome is not Outcome.NOT_SCORED:
            passed, scored = counts.get(each.example_id, (0, 0))
            counts[each.example_id] = passed + (each.outcome is Outcome.PASS), scored + 1
    return counts


def pass_table(passes: Passes, draws: int) -> dict[str, float]:
    """Return pass@k, the mean over examples, for k = 1, 2, 4, … and ``draws``.

    Examples with fewer scored draws than k are left out of that mean.
    """
    sizes = sorted({1 << power for power in range(draws.bit_length())} | {draws})
    table = {}
    for k in (size for size in sizes if size <= draws):
        found = [pass_at_k(c, n, k) for c, n in passes.values() if n >= k]
        if found:
            table[str(k)] = fmean(found)
    return table
