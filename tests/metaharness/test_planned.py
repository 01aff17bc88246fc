"""What the search says beforehand that it asks for, beside what it then asks for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from attrs import define, field
from metaharness_fakes import FakeContext, ScriptedProposer, h, run, search

from whale_core.abilities import IterationPlan, PlansIterations, Validates
from whale_core.roles import Candidate, Harness, NullResult, Proposal, Score
from whale_core.span import Span
from whale_metaharness.proposers.claude_code.proposer import ClaudeCodeProposer
from whale_metaharness.proposers.manual import ManualProposer
from whale_metaharness.proposers.policy import PolicyProposer
from whale_metaharness.proposers.replay import ReplayProposer


@define
class Counting(FakeContext):
    """Counts what it is asked for, by name."""

    asked: Counter[str] = field(factory=Counter)

    async def score(self, harnesses: Any, *how: Any, **named: Any) -> list[Score]:
        self.asked["scored"] += len(harnesses)
        return await super().score(harnesses, *how, **named)

    async def propose(self, *arguments: object) -> Proposal:  # type: ignore[override]
        self.asked["proposals"] += 1
        return await super().propose(*arguments)  # type: ignore[arg-type]

    async def smoke(self, harness: Harness) -> str | None:
        self.asked["smoked"] += 1
        return await super().smoke(harness)

    async def null_check(self, harness: Harness) -> list[NullResult]:
        self.asked["null_checked"] += 1
        return await super().null_check(harness)


def candidate(number: int) -> Candidate:
    return Candidate(h(f"TAG = {number}"), "h0000", "axis", "why", "what")


def asked_for(context: Counting, *plans: IterationPlan) -> dict[str, tuple[int, Span]]:
    """Return what was asked for beside what was planned, by name."""
    whole = {}
    for name in ("proposals", "smoked", "null_checked", "scored"):
        planned = Span.exactly(0)
        for plan in plans:
            planned = planned + getattr(plan, name)
        whole[name] = (context.asked[name], planned)
    return whole


def test_all_candidates_pass_the_gates(tmp_path: Path) -> None:
    engine = search(ScriptedProposer([[candidate(1), candidate(2)], [candidate(3)]]), candidates=2)
    assert isinstance(engine, PlansIterations)
    first, later = engine.planned_iteration(1, False), engine.planned_iteration(2, False)
    context = Counting(tmp_path)
    run(engine, context, 2)
    for asked, planned in asked_for(context, first, later).values():
        assert asked == planned.most
    # A later phase knows its incoming harness; its one candidate is less than the most.
    known = engine.planned_iteration(1, True)
    context = Counting(tmp_path, phase=1, cycle=1)
    run(engine, context, 2)
    asked = asked_for(context, known, engine.planned_iteration(2, True))
    assert asked["smoked"] == (1, Span(0, 2)) and asked["scored"] == (2, Span(1, 3))
    assert asked["proposals"] == (1, Span.exactly(1))


def test_refused_candidates_cost_less_never_more(tmp_path: Path) -> None:
    script = [[Candidate("class (", None), candidate(1), candidate(2), candidate(3)]]
    engine = search(ScriptedProposer(script), candidates=3)
    context = Counting(tmp_path, broken={"smoke": "TAG = 2"})
    run(engine, context, 2)
    plans = engine.planned_iteration(1, False), engine.planned_iteration(2, False)
    for asked, planned in asked_for(context, *plans).values():
        assert planned.most is not None and planned.least <= asked <= planned.most
    assert context.asked["scored"] == 2 and context.asked["smoked"] == 3


def test_only_what_may_be_validated_is_planned() -> None:
    def gated(proposer: Any) -> Span:
        return search(proposer, candidates=2).planned_iteration(2, True).smoked

    @define
    class Recorded(ScriptedProposer):
        writes_code: bool = True
        validates: bool = False

    assert gated(ScriptedProposer([])) == Span(0, 2)
    assert gated(ScriptedProposer([], writes_code=True)) == Span(0, 18)
    assert gated(Recorded([])) == Span(0, 2)
    for proposer in (ReplayProposer, PolicyProposer, ClaudeCodeProposer):
        assert proposer.writes_code and not proposer.validates
    assert not isinstance(ManualProposer, Validates)  # it validates on request
