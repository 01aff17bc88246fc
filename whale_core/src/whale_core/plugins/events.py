"""What observers are told: frozen records of a run, a phase and an evaluation.

The records of a step and of an iteration are the reports that the plugins themselves yield
(``WeightStep``, ``SearchIteration``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen


@frozen
class RunInfo:
    """A run at its start (or at its continuation).

    ``facts`` are the manifest's facts about model, engine and machine. Two of them serve the
    estimate of the time left: ``planned_rollouts`` (of the whole run, when it is known beforehand)
    and ``done_rollouts`` (before this continuation). ``notes`` are lines the user should read, such
    as a weaker jail.
    """

    name: str
    folder: Path
    config: Mapping[str, Any]
    facts: Mapping[str, Any] = field(factory=dict)
    notes: tuple[str, ...] = ()


@frozen
class PhaseInfo:
    """A phase at its start, or where it is continued after ``done`` of its steps or iterations.

    ``planned`` counts them, None if a rule decides.
    """

    number: int  # from 1, over the whole run
    cycle: int  # from 1
    kind: str  # "weights" | "harness"
    harness_id: str
    weights_id: str
    planned: int | None = None
    done: int = 0


@frozen
class Evaluation:
    """A pair's score on a split, with its 95 % interval."""

    pair: str  # "theta0_h0", "theta0_h", "theta_h0", "theta_h", or the name of a phase end
    split: str
    harness_id: str
    weights_id: str
    examples: int
    draws: int
    mean: float
    low: float
    high: float
    metrics: Mapping[str, float] = field(factory=dict)
