"""``halving``: the rollouts of an iteration go to those that are still in question.

Sequential halving (Karnin, Koren and Somekh, 2013): all candidates and the accepted harness are
measured on a few rollouts, the better half on more, and so on; one is left. An iteration makes no
more rollouts than ``argmax`` makes to score its candidates, and the accepted harness, too, is
measured anew each time: luck that made it the accepted one does not keep it there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import define, evolve, field

from whale_core.keys import generator
from whale_core.roles import Score
from whale_metaharness.acceptance.argmax import best_of, first_decision
from whale_metaharness.acceptance.ranking import solved
from whale_metaharness.acceptance.rule import Decision, Measures, Terms


def rounds_of(harnesses: int, rollouts: int) -> list[tuple[int, int]]:
    """Return for each round how many harnesses it measures and how many rollouts each gets.

    Together at most ``rollouts``, unless that is not one for each.
    """
    count = max(1, math.ceil(math.log2(harnesses)))
    rounds, left = [], harnesses
    for _ in range(count):
        rounds.append((left, max(1, rollouts // (count * left))))
        left = -(-left // 2)
    return rounds


def pooled(scores: Sequence[Score]) -> Score:
    """Return one score of all rollouts of several scores of one harness."""
    rewards: dict[str, tuple[float, ...]] = {}
    reasons: dict[str, int] = {}
    for score in scores:
        for name, values in score.rewards.items():
            rewards[name] = (*rewards.get(name, ()), *values)
        for reason, number in score.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + number
    scored = sum(score.scored for score in scores)

    def mean(parts: Sequence[tuple[float, int]]) -> float:
        whole = sum(number for _, number in parts)
        return sum(value * number for value, number in parts) / whole if whole else 0.0

    metrics = dict.fromkeys(name for score in scores for name in score.metrics)
    means = [sum(values) / len(values) for values in rewards.values() if values]
    return evolve(
        scores[0],
        mean=float(np.mean(means)) if means else 0.0,
        scored=scored,
        not_scored=sum(score.not_scored for score in scores),
        rewards=rewards,
        mean_calls=mean([(score.mean_calls, score.scored) for score in scores]),
        sampled_tokens=sum(score.sampled_tokens for score in scores),
        metrics={
            name: mean(
                [(score.metrics[name], score.scored) for score in scores if name in score.metrics]
            )
            for name in metrics
        },
        reasons=reasons,
    )


@define
class Halving:
    """Accepts the last one left of each iteration's candidates and the accepted harness.

    Its training signal is the best score with which a harness came in or was accepted.
    """

    terms: Terms
    measures: Measures
    accepted: Decision = field(default=Decision("", ""), init=False)
    best: float = field(default=0.0, init=False)
    _each: int = field(default=0, init=False)  # rollouts that ``argmax`` gives a harness
    _used: int = field(default=0, init=False)  # draws of an example so far

    @property
    def leader(self) -> str:
        """What is accepted."""
        return self.accepted.id

    async def start(self, ids: Sequence[str]) -> None:
        """Score the incoming harness and older ones on all examples; the best is accepted."""
        self.accepted = await first_decision(self.terms, self.measures, ids)
        score = dict(self.measures.fresh())[ids[0]]
        self._each = score.scored + score.not_scored
        self._used = -(-self._each // len(self.measures.examples))
        self.best = best_of(self.measures)

    async def judge(self, ids: Sequence[str]) -> None:
        """Halve the candidates and the accepted harness until one is left."""
        incumbent = self.accepted.id
        if not ids:
            self.accepted = Decision(incumbent, f"kept {incumbent}: nothing was tried")
            return
        names = [incumbent, *ids]
        left, parts, start = names, {name: list[Score]() for name in names}, 0
        rounds = rounds_of(len(names), len(ids) * self._each)
        scores: dict[str, Score] = {}
        for _, rollouts in rounds:
            await self._pull(left, parts, start, start + rollouts)
            start += rollouts
            scores |= {name: pooled(parts[name]) for name in left}
            # Python sorts stably, so that of equals the accepted one and then the older stays.
            order = sorted(left, key=lambda name: self.terms.rank(scores[name]), reverse=True)
            left = [name for name in names if name in order[: -(-len(left) // 2)]]
        self._used += -(-start // len(self.measures.examples))
        for name, score in scores.items():
            self.measures.record(name, score)
        self.accepted = self._decision(left[0], incumbent, parts, rounds)
        if self.accepted.id != incumbent:
            self.best = max(self.best, scores[self.accepted.id].mean)

    async def conclude(self) -> None:
        """Leave it at that."""

    async def _pull(
        self, names: Sequence[str], parts: dict[str, list[Score]], start: int, end: int
    ) -> None:
        """Measure rollouts ``start`` to ``end`` of an iteration: draw after draw of all examples,
        in an order of the iteration's own."""
        examples = self.measures.examples
        order = generator(*self.measures.names, "halving", self._used).permutation(len(examples))
        while start < end:
            draw, first = divmod(start, len(examples))
            stop = min(end - start, len(examples) - first)
            chosen = [examples[int(place)] for place in order[first : first + stop]]
            found = await self.measures.score(names, chosen, 1, first_draw=self._used + draw)
            for name, score in zip(names, found, strict=True):
                parts[name].append(score)
            start += stop

    def _decision(
        self,
        winner: str,
        incumbent: str,
        parts: dict[str, list[Score]],
        rounds: Sequence[tuple[int, int]],
    ) -> Decision:
        each = ", then ".join(f"{number} on {rollouts}" for number, rollouts in rounds)
        how = f"({each} rollouts each)"
        if winner == incumbent:
            return Decision(incumbent, f"kept {incumbent}: it won the halving {how}")
        old = pooled(parts[incumbent])
        common = pooled(parts[winner][: len(parts[incumbent])])  # of the rollouts that both made
        gain = common.mean - old.mean
        figures = (
            f"{winner} solved {solved(pooled(parts[winner]))}; on the rollouts that both made "
            f"{100 * common.mean:.1f} %, {incumbent} {100 * old.mean:.1f} % of {old.scored}"
        )
        if not self.terms.enough(gain):
            least = f"{100 * self.terms.minimum_gain:.1f} points"
            return Decision(incumbent, f"kept {incumbent}: {figures}, less than {least} more")
        return Decision(winner, f"{winner} won the halving {how}: {figures}")
