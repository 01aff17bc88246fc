"""What a change to a harness did: two archived harnesses, compared where both were scored."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen

from whale_core.roles import Score
from whale_core.run.archive import ArchiveEntry
from whale_core.stats import Interval, paired_difference

SOLVED_ABOVE = 0.5  # mean over draws above which an example counts as solved


@frozen
class Comparison:
    """Scores of one phase under one pair of weights, paired by example: ``new`` minus ``old``.

    ``gained`` and ``lost`` are the examples that only one of them solved. ``metrics`` are those
    that changed, as (old, new).
    """

    phase: int
    weights_id: str
    examples: int
    draws: int
    old: Score
    new: Score
    difference: Interval
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    metrics: Mapping[str, tuple[float | None, float | None]]


def compare(old: ArchiveEntry, new: ArchiveEntry) -> Comparison | None:
    """Compare where both were scored last; None where no phase scored both on one example."""
    for record in reversed(new.scores):
        before = old.score_in(record.phase, record.score.weights_id, record.kind)
        if before is None:
            continue
        a, b = _means(before), _means(record.score)
        both = sorted(a.keys() & b.keys())
        if both:
            draws = max(len(draws) for draws in record.score.rewards.values())
            return Comparison(
                phase=record.phase,
                weights_id=record.score.weights_id,
                examples=len(both),
                draws=draws,
                old=before,
                new=record.score,
                difference=paired_difference(
                    np.array([b[name] for name in both]),
                    np.array([a[name] for name in both]),
                ),
                gained=tuple(n for n in both if a[n] <= SOLVED_ABOVE < b[n]),
                lost=tuple(n for n in both if b[n] <= SOLVED_ABOVE < a[n]),
                metrics=_changed(before.metrics, record.score.metrics),
            )
    return None


def _means(score: Score) -> dict[str, float]:
    return {name: float(np.mean(draws)) for name, draws in score.rewards.items() if draws}


def _changed(
    old: Mapping[str, float], new: Mapping[str, float]
) -> dict[str, tuple[float | None, float | None]]:
    names = dict.fromkeys((*old, *new))
    return {n: (old.get(n), new.get(n)) for n in names if old.get(n) != new.get(n)}
