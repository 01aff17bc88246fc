"""Behaviour metrics that mean the same in every domain."""

from __future__ import annotations

from whale_core.records import Trajectory


def truncated(trajectory: Trajectory) -> float:
    """1 if a reply ended at its token limit."""
    return float(any(call.finish_reason == "length" for call in trajectory.calls))


def calls(trajectory: Trajectory) -> float:
    """How many model calls were made."""
    return float(len(trajectory.calls))
