"""Behaviour metrics: how an episode went, beside whether the answer was right."""

from __future__ import annotations

from whale_core.metrics import calls, truncated
from whale_core.records import Outcome, Trajectory
from whale_core.roles import Metric
from whale_searchqa.answers import extract


def formatted(trajectory: Trajectory) -> float:
    """1 if the last reply has a closed answer pair."""
    return float(bool(trajectory.calls) and extract(trajectory.calls[-1].text) is not None)


def retrieved(trajectory: Trajectory) -> float:
    """1 if something fetched, as the harness got it, holds a reference answer."""
    return float(trajectory.record["evidence"])


def extracted(trajectory: Trajectory) -> float:
    """1 if something fetched holds a reference answer and the episode passed.

    Its mean over the mean of ``retrieval`` is the accuracy given that evidence was retrieved.
    """
    return float(trajectory.record["evidence"] and trajectory.outcome is Outcome.PASS)


def searches(trajectory: Trajectory) -> float:
    """How many searches were answered."""
    return float(len(trajectory.record["searches"]))


METRICS = (
    Metric("format", formatted, tie_break=True),
    Metric("retrieval", retrieved),
    Metric("extraction", extracted),
    Metric("searches", searches),
    Metric("truncated", truncated),
    Metric("calls", calls),
)
