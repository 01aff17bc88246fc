"""The conditions that improve one half only, and the one that improves nothing."""

from __future__ import annotations

from collections.abc import Generator

from attrs import frozen

from whale_core.plugins import Setup
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase
from whale_schedulers.config import (
    EvaluationOnlyConfig,
    HarnessOnlyConfig,
    WeightOnlyConfig,
)
from whale_schedulers.epochs import at_least_one_step
from whale_schedulers.rules import FixedCount


@frozen
class WeightOnly:
    """One weight phase of ``epochs`` (at least one step) under the base harness."""

    config: WeightOnlyConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the one phase."""
        steps = at_least_one_step(self.config.epochs, facts.steps_per_epoch)
        yield WeightPhase(until=FixedCount(steps))


@frozen
class HarnessOnly:
    """One harness phase of ``iterations`` under the initial weights."""

    config: HarnessOnlyConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the one phase."""
        yield HarnessPhase(until=FixedCount(self.config.iterations))


@frozen
class EvaluationOnly:
    """No phase at all: the run is its start and its final pass.

    With the run's rollouts as ``test.draws`` this is best-of-n: no learning at equal rollouts.
    """

    config: EvaluationOnlyConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield nothing."""
        yield from ()
