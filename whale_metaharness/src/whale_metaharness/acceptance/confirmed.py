"""``confirmed``: the best are measured again, on fresh draws, before one of them is accepted.

The best of many noisy scores is too good to be true. So a phase selects as ``argmax`` does, and
only at its end the best few and the incoming harness get fresh draws, on common keys, of examples
whose traces no proposer saw. One of them is accepted if it is better by a paired test. That is the
phase's only test, so its error rate holds whatever length a scheduler gives the phase.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from attrs import define, field, frozen

from whale_core.keys import generator
from whale_core.records import Example
from whale_core.roles import Score
from whale_core.run.archive import CONFIRMATION
from whale_core.stats import Interval, paired_difference, sign_flip_p
from whale_metaharness.acceptance.argmax import accept, best_of, first_decision, score_all
from whale_metaharness.acceptance.ranking import COSTS, solved
from whale_metaharness.acceptance.rule import Decision, Measures, Terms

# The seed of a harness's own random numbers depends on the number of a draw, not on its purpose:
# from here on no candidate has met one.
FIRST_DRAW = 1000


@frozen
class Test:
    """A challenger beside the incoming harness on fresh draws. ``p`` is one-sided, for the reward
    or, where no reward differs, for the metric ``by``; of ``cheaper`` ones all of that is equal."""

    __test__ = False  # not a test case, whatever pytest thinks of the name

    gain: Interval
    p: float
    examples: int
    by: str = ""
    cheaper: bool = False


@define
class Confirmed:
    """Accepts at most one harness a phase, at its end.

    The ``best`` by selection scores that are ahead of the incoming harness are confirmed on
    ``examples`` (None: as many as the phase scores on), ``draws`` each. A phase accepts a harness
    that is no better with a chance of at most ``error_rate``.
    """

    terms: Terms
    measures: Measures
    best_count: int = field(alias="best")
    examples: int | None
    draws: int
    error_rate: float
    accepted: Decision = field(default=Decision("", ""), init=False)
    leader: str = field(default="", init=False)

    @property
    def best(self) -> float:
        """The archive's best fresh selection score."""
        return best_of(self.measures)

    async def start(self, ids: Sequence[str]) -> None:
        """Score the incoming harness and older ones."""
        first = await first_decision(self._selection, self.measures, ids)
        self.accepted, self.leader = Decision(ids[0], first.reason), ids[0]
        self._lead(first)

    async def judge(self, ids: Sequence[str]) -> None:
        """Score the candidates; the incoming harness stays until the phase's end."""
        await score_all(self.measures, ids)
        self._lead(accept(self.measures.fresh(), self.leader, self._selection))

    async def conclude(self) -> tuple[Decision, dict[str, Score]] | None:
        """Confirm the best few, if any is ahead of the incoming harness."""
        incoming = self.accepted.id
        challengers = self._challengers()
        if not challengers:
            return None
        ids = [incoming, *challengers]
        found = await self.measures.score(
            ids, self._examples(), self.draws, CONFIRMATION, FIRST_DRAW
        )
        scores = dict(zip(ids, found, strict=True))
        for identifier, score in scores.items():
            self.measures.record(identifier, score, CONFIRMATION)
        return decide(scores, self.terms, self.error_rate, self.draws), scores

    @property
    def _selection(self) -> Terms:
        """What leads needs no margin: it is only what proposers start from."""
        return Terms(self.terms.tie_breaks, self.terms.costs)

    def _lead(self, decision: Decision) -> None:
        incoming = self.accepted.id
        self.leader = decision.id
        reason = decision.reason
        if decision.id != incoming:
            reason += f"; {incoming} stays until the phase's end, when that must be confirmed"
        self.accepted = Decision(incoming, reason)

    def _challengers(self) -> list[str]:
        fresh = {name: score for name, score in self.measures.fresh() if score.scored}
        incoming = fresh.pop(self.accepted.id, None)
        ahead = [
            name
            for name, score in fresh.items()
            if incoming is None or self.terms.rank(score) > self.terms.rank(incoming)
        ]
        ahead.sort(key=lambda name: self.terms.rank(fresh[name]), reverse=True)
        return ahead[: self.best_count]

    def _examples(self) -> list[Example]:
        """Return what to confirm on: first examples on which no candidate of the phase was scored,
        since a choice among candidates also fits the examples it was made on."""
        scored = {example.id for example in self.measures.examples}
        others = [example for example in self.measures.unseen if example.id not in scored]
        order = generator(*self.measures.names, "confirm").permutation(len(others))
        again = [example for example in self.measures.unseen if example.id in scored]
        count = len(self.measures.examples) if self.examples is None else self.examples
        return [*(others[int(place)] for place in order), *again][:count]


def decide(scores: Mapping[str, Score], terms: Terms, error_rate: float, draws: int) -> Decision:
    """Return which of the confirmed harnesses is accepted; the first of ``scores`` is the incoming.

    Each of the k others is tested at ``error_rate`` / k (Bonferroni); of those that pass and gain
    enough, the best is accepted.
    """
    incoming, *challengers = scores
    before = scores[incoming]
    tests = {name: paired_test(scores[name], before, terms, draws) for name in challengers}
    level = error_rate / len(challengers)
    passed = [
        name
        for name, test in tests.items()
        if (test.p <= level and terms.enough(test.gain.mean)) or test.cheaper
    ]
    winner = max(passed, key=lambda name: terms.rank(scores[name]), default="")
    shown = winner or max(challengers, key=lambda name: terms.rank(scores[name]))
    test, level_text = tests[shown], _level(error_rate, len(challengers))
    figures = (
        f"{solved(scores[shown])}, beside {100 * before.mean:.1f} % of {incoming}: gain "
        f"{100 * test.gain.mean:+.1f} points, 95 % interval {100 * test.gain.low:+.1f} to "
        f"{100 * test.gain.high:+.1f}, p = {test.p:.2g}"
    )
    on = f"on {test.examples} unseen examples × {draws}"
    if winner:
        reason = f"{winner} is confirmed {on}: {figures} (at most {level_text})"
        if test.by:
            reason += f", by {test.by}, since no reward differs"
        if test.cheaper:
            reason += ", equal in all but cost, and cheaper"
        return Decision(winner, reason)
    short = test.p <= level
    why = f"less than {100 * terms.minimum_gain:.1f} points" if short else f"not {level_text}"
    return Decision(incoming, f"kept {incoming}: {shown} is not confirmed {on}: {figures} ({why})")


def paired_test(new: Score, old: Score, terms: Terms, draws: int) -> Test:
    """Compare two scores on the examples that both have.

    Where no reward differs on any example, the tie-breaking metrics are compared in turn, and the
    cost after them.
    """
    both = [name for name, rewards in new.rewards.items() if rewards and old.rewards.get(name)]
    if not both:
        return Test(Interval(0.0, -1.0, 1.0), 1.0, 0)
    a, b = (
        np.array([sum(score.rewards[name]) / len(score.rewards[name]) for name in both])
        for score in (new, old)
    )
    gain = paired_difference(a, b)
    if np.any(a != b):
        return Test(gain, sign_flip_p(a - b), len(both))
    for name in terms.tie_breaks:
        ours, theirs = new.metrics.get(name, math.nan), old.metrics.get(name, math.nan)
        if ours != theirs:
            return Test(gain, rate_p(ours, theirs, len(both)), len(both), by=name)
    costs = [(COSTS[name](new), COSTS[name](old)) for name in terms.costs]
    cheaper = next((ours < theirs for ours, theirs in costs if ours != theirs), False)
    return Test(gain, 1.0, len(both), cheaper=cheaper)


def rate_p(ours: float, theirs: float, examples: int) -> float:
    """Return a one-sided p-value for the first of two means being larger; 1 unless both are in
    [0, 1].

    Nothing is in [0, 1] with a larger variance than a yes/no metric of its mean, and common draws
    make both move together: so the two-sample z test of proportions errs on the safe side.
    """
    if not (0 <= ours <= 1 and 0 <= theirs <= 1):
        return 1.0
    pooled = (ours + theirs) / 2
    deviation = math.sqrt(2 * pooled * (1 - pooled) / examples)
    return 1.0 if deviation == 0 else math.erfc((ours - theirs) / deviation / math.sqrt(2)) / 2


def _level(error_rate: float, tested: int) -> str:
    return f"{error_rate:g}" if tested == 1 else f"{error_rate:g} / {tested}"
