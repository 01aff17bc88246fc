"""The order of scores: reward, then behaviour, then cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from whale_core.roles import Score

COSTS: Mapping[str, Callable[[Score], float]] = {
    "calls": lambda score: score.mean_calls,
    "tokens": lambda score: score.sampled_tokens / score.scored if score.scored else 0.0,
}
"""What a rollout costs, by name: model calls, sampled tokens."""
PUBLISHED_COSTS = ("calls",)


def rank(
    score: Score, tie_breaks: Sequence[str], costs: Sequence[str] = PUBLISHED_COSTS
) -> tuple[float, ...]:
    """Return what scores are compared by, larger first; an absent or undefined metric is last."""
    return (*merits(score, tie_breaks), *(-COSTS[name](score) for name in costs))


def merits(score: Score, tie_breaks: Sequence[str]) -> tuple[float, ...]:
    """Return the mean reward and the tie-breaking metrics, larger first, without the cost."""
    values = (score.mean, *(score.metrics.get(name, -math.inf) for name in tie_breaks))
    return tuple(-math.inf if math.isnan(value) else value for value in values)


def solved(score: Score) -> str:
    """Return a score in words, as ``12.5 % of 64``."""
    return f"{100 * score.mean:.1f} % of {score.scored}"


def why_better(
    new: Score, old: Score, tie_breaks: Sequence[str], costs: Sequence[str], names: tuple[str, str]
) -> str:
    """Return in words where ``new`` is before ``old``; ``names`` are what they are called."""
    if new.mean != old.mean:
        return f"{names[0]} solved {solved(new)}, before {100 * old.mean:.1f} %"
    tied = f"{names[0]} solved {solved(new)} as {names[1]} did"
    for name, ours, theirs in zip(
        tie_breaks, merits(new, tie_breaks)[1:], merits(old, tie_breaks)[1:], strict=True
    ):
        if ours != theirs:
            before = "undefined" if math.isinf(theirs) else f"{theirs:.3g}"
            return f"{tied}, with more {name}: {ours:.3g}, before {before}"
    ours, theirs, name = next(
        (COSTS[name](new), COSTS[name](old), name)
        for name in costs
        if COSTS[name](new) != COSTS[name](old)
    )
    unit = {"calls": "model calls", "tokens": "sampled tokens"}[name]
    return f"{tied}, with fewer {unit}: {ours:.2f}, before {theirs:.2f}"
