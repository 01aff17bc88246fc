"""The published acceptance rule: the archive's best fresh score, without a margin."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from whale_core.roles import Score


@frozen
class Decision:
    """The accepted entry's id and why, in plain words."""

    id: str
    reason: str


def accept(
    fresh: Sequence[tuple[str, Score]], incumbent: str, tie_breaks: Sequence[str]
) -> Decision:
    """Return the best of ``fresh``, the ids and scores of this phase in archive order.

    Highest mean reward first; ties go to the larger value of each of the behaviour metrics
    ``tie_breaks`` in turn, then to fewer model calls, then to the incumbent, then to the older.
    Harnesses of which no rollout was scored do not take part.
    """
    scores = {identifier: score for identifier, score in fresh if score.scored > 0}
    if not scores:
        return Decision(incumbent, f"kept {incumbent}: no harness has a score")
    best = max(rank(score, tie_breaks) for score in scores.values())
    winners = [identifier for identifier in scores if rank(scores[identifier], tie_breaks) == best]
    if incumbent in winners:
        return Decision(incumbent, f"kept {incumbent}: nothing scored higher")
    winner = winners[0]
    return Decision(winner, _reason(winner, incumbent, scores, tie_breaks))


def rank(score: Score, tie_breaks: Sequence[str]) -> tuple[float, ...]:
    """Return what scores are compared by, larger first; an absent or undefined metric is last."""
    return (*merits(score, tie_breaks), -score.mean_calls)


def merits(score: Score, tie_breaks: Sequence[str]) -> tuple[float, ...]:
    """Return the mean reward and the tie-breaking metrics, larger first, without the cost."""
    values = (score.mean, *(score.metrics.get(name, -math.inf) for name in tie_breaks))
    return tuple(-math.inf if math.isnan(value) else value for value in values)


def solved(score: Score) -> str:
    """Return a score in words, as ``12.5 % of 64``."""
    return f"{100 * score.mean:.1f} % of {score.scored}"


def _reason(
    winner: str, incumbent: str, scores: dict[str, Score], tie_breaks: Sequence[str]
) -> str:
    new, old = scores[winner], scores.get(incumbent)
    if old is None:
        return f"{winner} solved {solved(new)}; {incumbent} has no score"
    if new.mean != old.mean:
        return f"{winner} solved {solved(new)}, before {100 * old.mean:.1f} %"
    tied = f"{winner} solved {solved(new)} as {incumbent} did"
    for name, ours, theirs in zip(
        tie_breaks, merits(new, tie_breaks)[1:], merits(old, tie_breaks)[1:], strict=True
    ):
        if ours != theirs:
            before = "undefined" if math.isinf(theirs) else f"{theirs:.3g}"
            return f"{tied}, with more {name}: {ours:.3g}, before {before}"
    return f"{tied}, with fewer model calls: {new.mean_calls:.2f}, before {old.mean_calls:.2f}"
