"""A comparison's results in plain words."""

from __future__ import annotations

from whale_core.evidence.inference import Difference
from whale_core.evidence.report.words import p_value

LEVEL = 0.05


def difference_sentence(a: str, b: str, found: Difference, p_holm: float | None) -> str:
    """Say whether ``a`` is better than ``b`` (or cannot be told from it), by how much, how sure.

    In percentage points of the test split. With few seeds it is said of these runs alone.
    """
    if found.interval is None or p_holm is None:
        why = "no test example is scored in all of their runs"
        if not found.seeds:
            why = "no seed was finished in both"
        return f"{a} and {b} cannot be compared: {why}"
    mean, low, high = (100 * each for each in _ends(found))
    size = f"{mean:.1f} points ({low:.1f} to {high:.1f})"
    sure = f"p {p_value(p_holm)} after Holm"
    if found.left_out:
        sure += f", on the {found.examples} test examples that all their runs scored"
    seen = p_holm < LEVEL and low > 0
    if not found.of_conditions:
        of = runs_of(len(found.seeds))
        if seen:
            return f"of {of} those of {a} score above those of {b} by {size}, {sure}"
        return f"of {of} no difference between {a} and {b} can be seen: {size}, {sure}"
    if seen:
        return f"{a} beats {b} by {size}, {sure}"
    return f"no difference between {a} and {b} can be seen: {size}, {sure}"


def runs_of(seeds: int) -> str:
    """Return the words for what a difference of few seeds is about."""
    return "this one seed's runs" if seeds == 1 else f"these {seeds} seeds' runs"


def _ends(found: Difference) -> tuple[float, float, float]:
    assert found.interval is not None
    return found.interval.mean, found.interval.low, found.interval.high
