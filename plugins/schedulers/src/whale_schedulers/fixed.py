"""The published schedule with fixed lengths, and the three that rearrange it."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from attrs import frozen

from whale_core.plugins import Setup
from whale_core.roles import Phase, PhaseResult, RunFacts
from whale_schedulers.config import FixedConfig, StagewiseConfig
from whale_schedulers.epochs import at_least_one_step, phase_lengths
from whale_schedulers.turns import turns


@frozen
class Fixed:
    """W, H, W, H, …, W: the weight phase that completes ``total_epochs`` ends the run.

    No search follows it, as in the published runs: the last harness is the one that the last
    weights were trained under.
    """

    config: FixedConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the phases."""
        yield from turns(_lengths(self.config, facts), self.config.iterations)


@frozen
class FinalSearch:
    """W, H, …, W, H: ``Fixed`` with one more search, under the last weights."""

    config: FixedConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the phases."""
        yield from turns(_lengths(self.config, facts), self.config.iterations, after=True)


@frozen
class OrderSwap:
    """H, W, H, W, …, H, W: the harness first in each cycle, the same weight phases."""

    config: FixedConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the phases."""
        yield from turns(_lengths(self.config, facts), self.config.iterations, before=True)


@frozen
class Stagewise:
    """W, H: all weight steps under the first harness, then all of the search, once."""

    config: StagewiseConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the two phases."""
        steps = at_least_one_step(self.config.epochs, facts.steps_per_epoch)
        yield from turns([steps], self.config.iterations, after=True)


def _lengths(config: FixedConfig, facts: RunFacts) -> Iterator[int]:
    return phase_lengths(config.epochs, config.total_epochs, facts.steps_per_epoch)
