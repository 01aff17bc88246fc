"""The typed façade of the observer hooks: the run calls these methods, never pluggy itself.

Each observer is called on its own, so that one that fails neither ends the run nor keeps the others
from being told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pluggy

from whale_core.plugins.events import Evaluation, PhaseInfo, RunInfo
from whale_core.roles import Conclusion, PhaseResult, SearchIteration, WeightStep

ObserverErrorHandler = Callable[[str, str, Exception], None]


def log_observer_error(plugin: str, hook: str, error: Exception) -> None:
    """Write the failure of an observer to the log (the handler while no run has set its own)."""
    logging.getLogger(__name__).warning("observer %s failed in %s: %r", plugin, hook, error)


class Observers:
    """One method per observer hook; see ``whale_core.plugins.hookspecs`` for their contracts.

    ``on_observer_error(plugin, hook, error)`` is called for each exception of an observer.
    """

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self._manager = manager
        self.on_observer_error: ObserverErrorHandler = log_observer_error

    def _tell(self, hook: str, **arguments: Any) -> None:
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        for each in reversed(implementations):  # pluggy keeps them in reverse order of calling
            try:
                each.function(*(arguments[name] for name in each.argnames))
            except Exception as error:
                self.on_observer_error(each.plugin_name, hook, error)

    def on_run_started(self, run: RunInfo) -> None:
        """Tell that a run starts or continues."""
        self._tell("whale_on_run_started", run=run)

    def on_run_finished(self, run: RunInfo, result: Mapping[str, Any]) -> None:
        """Tell that a run has ended normally."""
        self._tell("whale_on_run_finished", run=run, result=result)

    def before_phase(self, phase: PhaseInfo) -> None:
        """Tell that a phase starts."""
        self._tell("whale_before_phase", phase=phase)

    def after_phase(self, phase: PhaseInfo, result: PhaseResult) -> None:
        """Tell that a phase has ended."""
        self._tell("whale_after_phase", phase=phase, result=result)

    def on_phase_error(self, phase: PhaseInfo, error: Exception) -> None:
        """Tell that a phase failed."""
        self._tell("whale_on_phase_error", phase=phase, error=error)

    def on_weight_step(self, phase: PhaseInfo, step: WeightStep) -> None:
        """Tell of a weight step."""
        self._tell("whale_on_weight_step", phase=phase, step=step)

    def on_search_iteration(self, phase: PhaseInfo, iteration: SearchIteration) -> None:
        """Tell of a search iteration."""
        self._tell("whale_on_search_iteration", phase=phase, iteration=iteration)

    def on_search_conclusion(self, phase: PhaseInfo, conclusion: Conclusion) -> None:
        """Tell what a search decided at its phase's end."""
        self._tell("whale_on_search_conclusion", phase=phase, conclusion=conclusion)

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """Tell that a pair was evaluated."""
        self._tell("whale_on_evaluation", evaluation=evaluation)

    def on_notice(self, text: str) -> None:
        """Tell something the user should read now."""
        self._tell("whale_on_notice", text=text)

    def on_rollouts(self, purpose: str, done: int, total: int, sampled_tokens: int) -> None:
        """Tell of progress inside a batch of rollouts."""
        self._tell(
            "whale_on_rollouts",
            purpose=purpose,
            done=done,
            total=total,
            sampled_tokens=sampled_tokens,
        )
