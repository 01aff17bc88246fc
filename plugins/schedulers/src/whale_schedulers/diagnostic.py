"""Short probes of both coordinates, then the one that gains more per rollout.

The paper proposes a short search as a cheap diagnostic (its discussion of harness-limited and
model-limited tasks); here both coordinates are probed, and probing goes on: every phase is one.
"""

from __future__ import annotations

from collections.abc import Generator

from attrs import define, field, frozen

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase
from whale_schedulers.config import DiagnosticConfig
from whale_schedulers.epochs import at_least_one_step
from whale_schedulers.rules import FixedCount

KINDS = ("harness", "weights")  # in the order in which they are probed


@frozen
class Diagnostic:
    """H, W, then whichever of the two gained more per rollout when it last had a phase.

    What counts is the gain on the selection split at the phase's end (``PhaseResult.gain``): a
    search's own score has been chosen by and is too high. A loss, or a gain that nobody knows,
    counts as no gain; where neither gained, or both alike, it is the turn of the one that did not
    have the last phase. A plan, which knows no gains, shows the phases in turn.
    """

    config: DiagnosticConfig
    setup: Setup

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield the phases until the budget pays for none.

        Raises:
            InputError: rollouts are not known beforehand, or the budget pays for less than the two
                probes.
        """
        budget = self._budget(facts)
        rates = _Rates()
        while True:
            first = rates.better()
            lengths = {kind: self._length(kind, rates, budget, facts) for kind in KINDS}
            kind = first if lengths[first] else next(k for k in KINDS if k != first)
            if not lengths[kind]:
                return
            rule = FixedCount(lengths[kind])
            result = yield HarnessPhase(rule) if kind == "harness" else WeightPhase(rule)
            spent = _rollouts(kind, result.length, facts)
            budget -= spent
            rates.take(kind, (result.gain or 0.0) / spent)

    def _budget(self, facts: RunFacts) -> int:
        if not facts.rollouts_per_step or not facts.rollouts_per_score:
            raise InputError(
                "scheduler=diagnostic: model_update or harness_search does not say how many "
                "rollouts it makes, so gains per rollout cannot be told: use the scheduler fixed"
            )
        config = self.config
        steps = at_least_one_step(config.total_epochs, facts.steps_per_epoch)
        budget = steps * facts.rollouts_per_step
        probes = sum(_rollouts(kind, self._wanted(kind, True, facts), facts) for kind in KINDS)
        if probes > budget:
            raise InputError(
                f"scheduler.total_epochs: {config.total_epochs:g} are {budget} rollouts, but the "
                f"two probes need {probes}: give more, or fewer scheduler.probe_iterations or "
                "scheduler.probe_epochs"
            )
        return budget

    def _wanted(self, kind: str, probe: bool, facts: RunFacts) -> int:
        """Return how many iterations or steps a phase should have."""
        config = self.config
        if kind == "harness":
            return config.probe_iterations if probe else config.iterations
        epochs = config.probe_epochs if probe else config.epochs
        return at_least_one_step(epochs, facts.steps_per_epoch)

    def _length(self, kind: str, rates: _Rates, budget: int, facts: RunFacts) -> int:
        """Return how many the budget pays for; 0 if too few to be a phase."""
        least = 2 if kind == "harness" else 1
        length = self._wanted(kind, kind not in rates.of, facts)
        while length >= least and _rollouts(kind, length, facts) > budget:
            length -= 1
        return length if length >= least else 0


@define
class _Rates:
    """Gain per rollout of each coordinate's last phase."""

    of: dict[str, float] = field(factory=dict)
    last: str = ""

    def take(self, kind: str, rate: float) -> None:
        """Take note of a phase."""
        self.of[kind] = max(0.0, rate)
        self.last = kind

    def better(self) -> str:
        """Return whose turn it is: one that was not probed yet, else the better one."""
        for kind in KINDS:
            if kind not in self.of:
                return kind
        return max(KINDS, key=lambda kind: (self.of[kind], kind != self.last))


def _rollouts(kind: str, length: int, facts: RunFacts) -> int:
    """Return the rollouts of a phase."""
    if kind == "harness":
        return facts.search_rollouts(length)
    return length * facts.rollouts_per_step
