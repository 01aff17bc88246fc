"""Behaviour metrics: how an episode went, beside whether the puzzle was solved."""

from __future__ import annotations

from whale_chess.line import Status
from whale_core.metrics import calls, truncated
from whale_core.records import ToolEvent, Trajectory
from whale_core.roles import Metric


def _status(event: ToolEvent) -> str:
    """Return a move's status; a result that has none counts as an illegal move."""
    result = event.result if isinstance(event.result, dict) else {}
    return str(result.get("status", Status.ILLEGAL))


def _illegal(event: ToolEvent) -> bool:
    return _status(event) == Status.ILLEGAL


def formatted(trajectory: Trajectory) -> float:
    """1 if the model named at least one legal move in a form that the harness could read."""
    played = {Status.CONTINUE, Status.SOLVED, Status.WRONG}
    return float(any(_status(event) in played for event in trajectory.answered))


def legal(trajectory: Trajectory) -> float:
    """1 if a move was made and none was illegal."""
    return float(bool(trajectory.answered) and not any(map(_illegal, trajectory.answered)))


def format_retries(trajectory: Trajectory) -> float:
    """How many calls were followed by another call with no move made in between."""
    moved_after = {event.after_call for event in trajectory.answered}
    return float(sum(call not in moved_after for call in range(1, len(trajectory.calls))))


def illegal_retries(trajectory: Trajectory) -> float:
    """How many illegal moves were followed by another model call."""
    calls = len(trajectory.calls)
    return float(sum(_illegal(e) and e.after_call < calls for e in trajectory.answered))


METRICS = (
    Metric("format", formatted, tie_break=True),
    Metric("legal", legal),
    Metric("format_retries", format_retries),
    Metric("illegal_retries", illegal_retries),
    Metric("truncated", truncated),
    Metric("calls", calls),
)
