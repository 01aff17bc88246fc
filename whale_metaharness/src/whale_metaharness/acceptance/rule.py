"""What every acceptance rule gets and gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from whale_core.records import Example
from whale_core.roles import Score
from whale_core.run.archive import SELECTION
from whale_metaharness.acceptance.ranking import rank


@frozen
class Decision:
    """An entry's id and why it was chosen, in plain words."""

    id: str
    reason: str


@frozen
class Terms:
    """What all rules go by: metrics and costs that separate equal rewards, in order, and by how
    much a harness must solve more (a mean reward) to take another's place."""

    tie_breaks: tuple[str, ...] = ()
    costs: tuple[str, ...] = ("calls",)
    minimum_gain: float = 0.0

    def rank(self, score: Score) -> tuple[float, ...]:
        """Return what scores are compared by, larger first; one without a rollout is last."""
        return (float(score.scored > 0), *rank(score, self.tie_breaks, self.costs))

    def enough(self, gain: float) -> bool:
        """Say whether so much more reward is enough; equal rewards go to the tie-breaks."""
        return gain == 0 or gain >= self.minimum_gain - 1e-12


class Measures(Protocol):
    """What a rule may measure in a phase, and what has been measured."""

    @property
    def names(self) -> tuple[str | int, ...]:
        """Run seed and phase: with them a rule names its random choices."""
        ...

    @property
    def examples(self) -> Sequence[Example]:
        """The examples on which the phase scores."""
        ...

    @property
    def unseen(self) -> Sequence[Example]:
        """Those of D_harness on which no proposer sees a trace."""
        ...

    async def score(
        self,
        ids: Sequence[str],
        examples: Sequence[Example] | None = None,
        draws: int | None = None,
        purpose: str = SELECTION,
        first_draw: int = 0,
    ) -> list[Score]:
        """Score archived harnesses in one pool (``SearchContext.score``)."""
        ...

    def record(self, identifier: str, score: Score, kind: str = SELECTION) -> None:
        """Keep a score in the archive."""
        ...

    def fresh(self) -> list[tuple[str, Score]]:
        """Return id and newest selection score of all harnesses scored in this phase, in archive
        order."""
        ...


class Rule(Protocol):
    """A rule at work in one phase."""

    @property
    def accepted(self) -> Decision:
        """What the phase would hand on, were the last iteration its last."""
        ...

    @property
    def leader(self) -> str:
        """The id of the harness that proposers should start from."""
        ...

    @property
    def best(self) -> float:
        """The training signal: how well the best of what was searched does, by selection scores."""
        ...

    async def start(self, ids: Sequence[str]) -> None:
        """Measure the incoming harness, the first of ``ids``, and older ones beside it."""
        ...

    async def judge(self, ids: Sequence[str]) -> None:
        """Measure an iteration's valid candidates (there may be none) and decide."""
        ...

    async def conclude(self) -> tuple[Decision, dict[str, Score]] | None:
        """Decide at the phase's end: what it hands on, and what was measured for it; None: what is
        accepted stands."""
        ...
