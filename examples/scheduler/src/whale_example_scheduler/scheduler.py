"""Weights and harness in turn; the more rollouts pass, the shorter the next weight phase."""

from __future__ import annotations

from collections.abc import Generator
from statistics import fmean

from attrs import define, frozen
from whale_core.plugins import Setup
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase

from whale_example_scheduler.config import Config


@define
class Count:
    """Ends a phase after ``count`` steps or iterations."""

    count: int
    seen: int = 0

    def observe(self, signal: float) -> bool:
        """Take one more signal; return True at the ``count``-th."""
        self.seen += 1
        return self.seen >= self.count

    def planned(self) -> int | None:
        """Return the length."""
        return self.count


@frozen
class Saturating:
    """W, H, W, H, …, W, until ``total_epochs`` are trained.

    All state is in the generator's local variables: a continued run sends the recorded results to a
    new generator, which then stands where the old one stood.
    """

    config: Config
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the phases; each weight phase depends on the mean reward of the one before."""
        full = max(1, round(self.config.epochs * facts.steps_per_epoch))
        left = max(1, round(self.config.total_epochs * facts.steps_per_epoch))
        share = 1.0
        while True:
            steps = min(left, max(1, round(share * full)))
            result = yield WeightPhase(until=Count(steps))
            left -= result.length
            if left <= 0:
                return
            share = max(self.config.shortest, 1.0 - fmean(result.signals))
            yield HarnessPhase(until=Count(self.config.iterations))
