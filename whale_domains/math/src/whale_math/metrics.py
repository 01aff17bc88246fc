"""Behaviour metrics: how an episode went, beside whether the answer was right."""

from __future__ import annotations

from whale_core.metrics import calls, truncated
from whale_core.records import ToolEvent, Trajectory
from whale_core.roles import Metric
from whale_math.answers import boxed, committed


def formatted(trajectory: Trajectory) -> float:
    """1 if the last reply has a closed box, thinking left out."""
    if not trajectory.calls:
        return 0.0
    return float(boxed(committed(trajectory.calls[-1].text)) is not None)


def answered(trajectory: Trajectory) -> float:
    """1 if the harness read an answer off the model's words."""
    return float(trajectory.answer is not None and trajectory.reason is None)


def tool_calls(trajectory: Trajectory) -> float:
    """How many programs were run."""
    return float(len(trajectory.answered))


def tool_errors(trajectory: Trajectory) -> float:
    """How many programs did not finish with exit status 0."""
    return float(sum(not _worked(event) for event in trajectory.answered))


def used_tool(trajectory: Trajectory) -> float:
    """1 if a program ran to its end without an error."""
    return float(any(map(_worked, trajectory.answered)))


def right_after_tool(trajectory: Trajectory) -> float:
    """1 if the answer is right and a program ran without an error before it.

    Its mean divided by that of ``tool_worked`` is the share right among the episodes in which the
    tool worked.
    """
    right = trajectory.verdict is not None and trajectory.verdict.reward > 0.5
    return float(right and any(map(_worked, trajectory.answered)))


def _worked(event: ToolEvent) -> bool:
    result = event.result if isinstance(event.result, dict) else {}
    return result.get("exit_status") == 0


METRICS = (
    Metric("format", formatted, tie_break=True),
    Metric("answered", answered),
    Metric("truncated", truncated),
    Metric("tool_calls", tool_calls),
    Metric("tool_errors", tool_errors),
    Metric("tool_worked", used_tool),
    Metric("right_after_tool", right_after_tool),
    Metric("calls", calls),
)
