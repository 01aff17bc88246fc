"""The published schedule: E epochs of weights, I iterations of search, and again."""

from __future__ import annotations

from collections.abc import Generator

from attrs import frozen

from whale_core.plugins import Setup
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase
from whale_schedulers.config import FixedConfig
from whale_schedulers.epochs import phase_lengths
from whale_schedulers.rules import FixedCount


@frozen
class Fixed:
    """W, H, W, H, …, W: the weight phase that completes ``total_epochs`` ends the run.

    No search follows it, as in the published runs: the last harness is the one that the last
    weights were trained under.
    """

    config: FixedConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the phases; what came of them changes nothing."""
        config = self.config
        lengths = phase_lengths(config.epochs, config.total_epochs, facts.steps_per_epoch)
        for index, steps in enumerate(lengths):
            if index:
                yield HarnessPhase(until=FixedCount(config.iterations))
            yield WeightPhase(until=FixedCount(steps))
