"""Follows each run with the trackers that its setting ``trackers.use`` names.

Their libraries are imported when a run starts that uses them. One that fails does not keep the
others from being told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from whale_core.plugins import hookimpl

if TYPE_CHECKING:
    from whale_core.plugins.events import Evaluation, PhaseInfo, RunInfo
    from whale_core.roles import PhaseResult, SearchIteration, WeightStep
    from whale_trackers.tracking import Tracking

_following: list[Tracking] = []  # of the run that this process works on


@hookimpl
def whale_on_run_started(run: RunInfo) -> None:
    """Begin with the trackers that the run's settings name."""
    _tell(lambda each: each.end())  # of a run that stopped before its end
    _following.clear()
    settings: Mapping[str, Any] = run.config.get("trackers", {})
    if settings.get("use"):
        from whale_trackers import tracking

        for name in settings["use"]:
            made = getattr(tracking, f"to_{name}")(prefix=settings["prefix"], x=settings["x"])
            _following.append(made)
    _tell(lambda each: each.whale_on_run_started(run))


@hookimpl
def whale_on_weight_step(step: WeightStep) -> None:
    """Pass a step on."""
    _tell(lambda each: each.whale_on_weight_step(step))


@hookimpl
def whale_on_search_iteration(iteration: SearchIteration) -> None:
    """Pass an iteration on."""
    _tell(lambda each: each.whale_on_search_iteration(iteration))


@hookimpl
def whale_on_evaluation(evaluation: Evaluation) -> None:
    """Pass a score on."""
    _tell(lambda each: each.whale_on_evaluation(evaluation))


@hookimpl
def whale_after_phase(phase: PhaseInfo, result: PhaseResult) -> None:
    """Pass a phase's end on."""
    _tell(lambda each: each.whale_after_phase(phase, result))


@hookimpl
def whale_on_run_finished() -> None:
    """End the trackers' runs."""
    _tell(lambda each: each.whale_on_run_finished())


def _tell(call: Callable[[Tracking], None]) -> None:
    """Make the call for each tracker; raise what failed when all have been told."""
    errors = []
    for each in _following:
        try:
            call(each)
        except Exception as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup("trackers failed", errors)
