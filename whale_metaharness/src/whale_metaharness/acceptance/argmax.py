"""The published rule: the archive's best fresh score; here a margin can be asked for."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from whale_core.roles import Score
from whale_metaharness.acceptance.ranking import solved, why_better
from whale_metaharness.acceptance.rule import Decision, Measures, Terms


def accept(fresh: Sequence[tuple[str, Score]], incumbent: str, terms: Terms) -> Decision:
    """Return the best of ``fresh``, the ids and scores of this phase in archive order.

    Highest mean reward first; ties go to the larger value of each of the tie-breaking metrics in
    turn, then to the cheaper by each of the costs, then to the incumbent, then to the older. One
    that solves more, but by less than the minimum gain, does not take the incumbent's place.
    Harnesses of which no rollout was scored do not take part.
    """
    scores = {identifier: score for identifier, score in fresh if score.scored > 0}
    if not scores:
        return Decision(incumbent, f"kept {incumbent}: no harness has a score")
    best = max(terms.rank(score) for score in scores.values())
    winners = [identifier for identifier in scores if terms.rank(scores[identifier]) == best]
    if incumbent in winners:
        return Decision(incumbent, f"kept {incumbent}: nothing scored higher")
    winner, old = winners[0], scores.get(incumbent)
    new = scores[winner]
    if old is None:
        return Decision(winner, f"{winner} solved {solved(new)}; {incumbent} has no score")
    why = why_better(new, old, terms.tie_breaks, terms.costs, (winner, incumbent))
    if not terms.enough(new.mean - old.mean):
        least = f"{100 * terms.minimum_gain:.1f} points"
        return Decision(incumbent, f"kept {incumbent}: {why}, less than {least} more")
    return Decision(winner, why)


@define
class Argmax:
    """Scores every candidate on all examples, and accepts the best after each iteration."""

    terms: Terms
    measures: Measures
    accepted: Decision = field(default=Decision("", ""), init=False)

    @property
    def leader(self) -> str:
        """What is accepted."""
        return self.accepted.id

    @property
    def best(self) -> float:
        """The archive's best fresh score."""
        return best_of(self.measures)

    async def start(self, ids: Sequence[str]) -> None:
        """Score the incoming harness and older ones; the best of them is accepted."""
        self.accepted = await first_decision(self.terms, self.measures, ids)

    async def judge(self, ids: Sequence[str]) -> None:
        """Score the candidates and accept the archive's best."""
        await score_all(self.measures, ids)
        self.accepted = accept(self.measures.fresh(), self.accepted.id, self.terms)

    async def conclude(self) -> None:
        """Leave it at that."""


async def score_all(measures: Measures, ids: Sequence[str]) -> None:
    """Score harnesses on all examples of the phase, in one pool, and keep the scores."""
    if ids:
        for identifier, score in zip(ids, await measures.score(ids), strict=True):
            measures.record(identifier, score)


async def first_decision(terms: Terms, measures: Measures, ids: Sequence[str]) -> Decision:
    """Score the incoming harness, the first of ``ids``, and the others; return the best."""
    await score_all(measures, ids)
    incoming, score = ids[0], dict(measures.fresh()).get(ids[0])
    if len(ids) > 1:
        return accept(measures.fresh(), incoming, terms)
    result = "has no score" if score is None else f"solved {solved(score)}"
    return Decision(incoming, f"the incoming {incoming} {result}")


def best_of(measures: Measures) -> float:
    """Return the archive's best fresh score; 0 if there is none."""
    return max((score.mean for _, score in measures.fresh() if score.scored), default=0.0)
