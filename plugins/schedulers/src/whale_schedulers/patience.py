"""The published adaptive schedule: each phase goes on for as long as it gains (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Generator

from attrs import frozen

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase
from whale_schedulers.config import PatienceConfig
from whale_schedulers.epochs import at_least_one_step
from whale_schedulers.rules import Plateau


@frozen
class Patience:
    """W, H, W, …, W, each until its training signal stops rising.

    ``total_epochs`` bounds all weight phases together, as in ``fixed``; the last one is cut there.
    ``total_rollouts``, if given, bounds all phases: a weight phase after which the shortest search
    and one more step could not be paid for takes what is left and ends the run.
    Iterations count the evaluation of the incoming harness. All state is a phase's own.
    """

    config: PatienceConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the phases; a weight phase's result says how much of the budget it took.

        Raises:
            InputError: ``total_rollouts`` is too small for one step, or nobody says what a step or
                a score takes.
        """
        steps = at_least_one_step(self.config.total_epochs, facts.steps_per_epoch)
        left = self._budget(facts)
        while True:
            until = self._weights(facts, steps, left)
            result = yield WeightPhase(until=until)
            steps -= result.length
            if until.most is None or result.length >= until.most:
                return
            if left is not None:
                left -= result.length * facts.rollouts_per_step
            result = yield HarnessPhase(until=self._harness(facts, left))
            if left is not None:
                left -= facts.search_rollouts(result.length)

    def _budget(self, facts: RunFacts) -> int | None:
        total = self.config.total_rollouts
        if total is None:
            return None
        if not facts.rollouts_per_step or not facts.rollouts_per_score:
            raise InputError(
                "scheduler.total_rollouts: model_update or harness_search does not say how many "
                "rollouts it makes: leave it null"
            )
        if total < facts.rollouts_per_step:
            raise InputError(
                f"scheduler.total_rollouts={total} does not pay for one weight step "
                f"({facts.rollouts_per_step} rollouts)"
            )
        return total

    def _weights(self, facts: RunFacts, steps: int, left: int | None) -> Plateau:
        config, each = self.config, facts.rollouts_per_step
        latest = None
        if left is not None:
            steps = min(steps, left // each)
            latest = (left - facts.search_rollouts(config.min_iterations)) // each - 1
        return Plateau(
            # published: more steps than the minimum, so that the next one is the first that may end
            earliest=at_least_one_step(config.min_epochs, facts.steps_per_epoch) + 1,
            patience=at_least_one_step(config.patience_epochs, facts.steps_per_epoch),
            window=at_least_one_step(config.window_epochs, facts.steps_per_epoch),
            full_windows=config.full_windows,
            min_gain=config.min_gain,
            most=steps,
            latest=latest,
        )

    def _harness(self, facts: RunFacts, left: int | None) -> Plateau:
        config = self.config
        most = config.max_iterations
        if left is not None:
            paid = left - facts.rollouts_per_step
            while most > config.min_iterations and facts.search_rollouts(most) > paid:
                most -= 1
        return Plateau(
            earliest=config.min_iterations,
            patience=config.patience_iterations,
            min_gain=config.min_gain,
            most=most,
        )
