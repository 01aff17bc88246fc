"""The published adaptive schedule: each phase goes on for as long as it gains (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Generator

from attrs import frozen

from whale_core.plugins import Setup
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase
from whale_schedulers.config import PatienceConfig
from whale_schedulers.epochs import at_least_one_step
from whale_schedulers.rules import Plateau


@frozen
class Patience:
    """W, H, W, …, W, each until its training signal stops rising.

    ``total_epochs`` bounds all weight phases together, as in ``fixed``; the last one is cut there.
    Iterations count the evaluation of the incoming harness. All state is a phase's own.
    """

    config: PatienceConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the phases; a weight phase's result says how much of the budget it took."""
        left = at_least_one_step(self.config.total_epochs, facts.steps_per_epoch)
        while True:
            result = yield WeightPhase(until=self._weights(facts.steps_per_epoch, left))
            left -= result.length
            if left <= 0:
                return
            yield HarnessPhase(until=self._harness())

    def _weights(self, steps_per_epoch: int, left: int) -> Plateau:
        config = self.config
        return Plateau(
            # published: more steps than the minimum, so that the next one is the first that may end
            earliest=at_least_one_step(config.min_epochs, steps_per_epoch) + 1,
            patience=at_least_one_step(config.patience_epochs, steps_per_epoch),
            window=at_least_one_step(config.window_epochs, steps_per_epoch),
            full_windows=config.full_windows,
            min_gain=config.min_gain,
            most=left,
        )

    def _harness(self) -> Plateau:
        config = self.config
        return Plateau(
            earliest=config.min_iterations,
            patience=config.patience_iterations,
            min_gain=config.min_gain,
            most=config.max_iterations,
        )
