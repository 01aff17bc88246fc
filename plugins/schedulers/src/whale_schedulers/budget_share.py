"""As many searches as a given share of the rollouts pays for."""

from __future__ import annotations

import math
from collections.abc import Generator
from fractions import Fraction
from itertools import pairwise

from attrs import frozen

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Phase, PhaseResult, RunFacts
from whale_schedulers.config import BudgetShareConfig
from whale_schedulers.epochs import at_least_one_step, exact
from whale_schedulers.turns import turns


@frozen
class BudgetShare:
    """W, H, W, …, W with near-equal weight phases and whole searches of ``iterations``.

    The number of searches is the one whose planned rollouts come nearest to ``share`` of the
    rollouts of both kinds of phase (evaluations between phases belong to neither). Planned means
    that every candidate is scored; one that a gate refuses costs less.
    """

    config: BudgetShareConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the phases.

        Raises:
            InputError: the share is too small for one search, or the searches are more than fit
                between the weight steps, or the rollouts of a step are not known.
        """
        steps = at_least_one_step(self.config.total_epochs, facts.steps_per_epoch)
        parts = self._searches(steps, facts) + 1
        ends = (steps * number // parts for number in range(parts + 1))
        yield from turns((b - a for a, b in pairwise(ends)), self.config.iterations)

    def _searches(self, steps: int, facts: RunFacts) -> int:
        """Return how many searches the share pays for: at least 1, at most ``steps`` - 1."""
        config = self.config
        trained = steps * facts.rollouts_per_step
        each = facts.search_rollouts(config.iterations)
        if not trained or not each:
            raise InputError(
                "scheduler.share: model_update or harness_search does not say how many rollouts "
                "it makes, so no share of them can be planned: use the scheduler fixed"
            )
        share = exact(config.share)
        searches = math.floor(share / (1 - share) * trained / each + Fraction(1, 2))
        paid = f"scheduler.share: {config.share:g} beside {trained} training rollouts"
        if not searches:
            needed = each / (each + trained)
            raise InputError(
                f"{paid} does not pay for one search of {config.iterations} iterations ({each} "
                f"rollouts, a share of {needed:.2g}): give a larger share, fewer "
                "scheduler.iterations or more scheduler.total_epochs"
            )
        if searches >= steps:
            raise InputError(
                f"{paid} is {searches} searches of {config.iterations} iterations, but {steps} "
                f"weight steps have room for {steps - 1} between them: give a smaller share or "
                "more scheduler.iterations"
            )
        return searches
