"""Counting a run before it is made: phases, spans, what nobody can say, and caps."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from attrs import define, evolve, frozen

from whale_core.abilities import IterationPlan, StepPlan
from whale_core.config.settings import (
    CapSettings,
    CoreSettings,
    SearchSettings,
    SelectionSettings,
    TestSettings,
)
from whale_core.errors import InputError
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase
from whale_core.run.calibration import Calibration, CheckpointCost, TrainingCost
from whale_core.run.estimate import estimate, refuse_small_caps
from whale_core.run.outline import Outline
from whale_core.run.parts import Confirmation
from whale_core.run.plan import Plan, always_rising, never_rising, plan_run, walk
from whale_core.run.session import cap_notes
from whale_core.span import UNKNOWN, Span

CORE = CoreSettings(
    search=SearchSettings(examples=16, draws=2),
    selection=SelectionSettings(examples=10, draws=3),
    test=TestSettings(examples=20, draws=2),
)
NOTHING = Confirmation()
FACTS = RunFacts(steps_per_epoch=4)


@define
class Count:
    """Ends after so many signals."""

    length: int
    seen: int = 0

    def observe(self, signal: float) -> bool:
        self.seen += 1
        return self.seen >= self.length

    def planned(self) -> int | None:
        return self.length


@define
class Patient:
    """Ends when the signal has not risen for ``patience`` units, or at ``cap``."""

    patience: int
    cap: int | None
    best: float = -1.0
    waited: int = 0
    seen: int = 0

    def observe(self, signal: float) -> bool:
        self.seen += 1
        self.waited = 0 if signal > self.best else self.waited + 1
        self.best = max(self.best, signal)
        return self.waited >= self.patience or self.seen == self.cap

    def planned(self) -> int | None:
        return None


@frozen
class Script:
    """A scheduler of these phases, each made anew."""

    make: Any

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        yield from self.make(facts)


class Update:
    def steps_per_epoch(self, prompts: int) -> int:
        return 4

    def planned_step(self) -> StepPlan:
        return StepPlan(prompts=8, group_size=4, most_updates=2)


class Mute:
    """Does not say what it will do."""

    def steps_per_epoch(self, prompts: int) -> int:
        return 4


class Search:
    def planned_iteration(self, iteration: int, known: bool) -> IterationPlan:
        if iteration == 1:
            admitted = Span.exactly(0 if known else 1)
            return IterationPlan(Span.exactly(0), admitted, admitted, Span.exactly(1))
        return IterationPlan(Span.exactly(1), Span(0, 3), Span(0, 3), Span(0, 3))


def parts(
    make: Any, update: Any = None, search: Any = None, confirmation: Confirmation = NOTHING
) -> Outline:
    return Outline(
        scheduler=Script(make),
        facts=FACTS,
        update=update,
        search=search,
        score=16,
        selection=10,
        test=100,
        confirmation=confirmation,
        null_models=Span.exactly(2),
        null_examples=64,
    )


def alternating(facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
    yield WeightPhase(Count(3))
    yield HarnessPhase(Count(4))
    yield WeightPhase(Count(2))
    yield HarnessPhase(Count(2))


def training(rule: Any) -> Any:
    """Return a scheduler's script: one weight phase under a fresh rule."""

    def make(facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        yield WeightPhase(rule())

    return make


def test_known_lengths_give_known_counts() -> None:
    plan = plan_run(parts(alternating, Update(), Search()), CORE)
    assert [(p.kind, p.cycle, p.length.most) for p in plan.phases] == [
        ("start", 0, 0),
        ("weights", 1, 3),
        ("harness", 1, 4),
        ("weights", 2, 2),
        ("harness", 2, 2),
        ("final", 2, 0),
    ]
    by = plan.by_purpose()
    assert by["train"] == Span.exactly(5 * 8 * 4)
    assert by["select"] == Span.exactly(5 * 30)
    # The incoming harness and up to three candidates in each of three and one later iterations.
    assert by["score"] == Span(2 * 32, (2 + 9 + 3) * 32)
    # Only the first phase's incoming harness is new to the search.
    assert by["smoke"] == Span(4, (1 + 9 + 3) * 4)
    assert by["test"] == Span(40, 4 * 40)
    assert plan.proposals == Span.exactly(4)
    gate, final = 2 * 64, 2 * 20
    assert plan.null_episodes == Span(2 * gate + final, (2 + 12) * gate + final)
    assert plan.expected_rollouts() == sum(span.known for span in by.values())
    assert plan.notes == ()


def test_confirming_at_a_phase_s_end_is_counted_once_a_phase() -> None:
    confirmation = Confirmation(Span(0, 3), examples=12, draws=2)
    plan = plan_run(parts(alternating, Update(), Search(), confirmation), CORE)
    assert plan.by_purpose()["confirm"] == Span(0, 2 * 3 * 12 * 2)
    plain = plan_run(parts(alternating, Update(), Search()), CORE)
    assert plain.by_purpose()["confirm"] == Span.exactly(0)
    assert plan.cycle_rollouts() == plain.cycle_rollouts() + 3 * 12 * 2
    priced = estimate(plan, CORE, PRICES).run.prompt_tokens.known
    assert priced == estimate(plain, CORE, PRICES).run.prompt_tokens.known + 2 * 3 * 12 * 2 * 100
    facts = RunFacts(4, 32, rollouts_per_score=10, candidates=3, rescored=2)
    assert facts.search_rollouts(3) == 10 * (1 + 2 + 2 * 3)
    assert evolve(facts, rollouts_per_conclusion=7).search_rollouts(3) == 97


def test_the_first_cycle_is_start_training_and_search() -> None:
    plan = plan_run(parts(alternating, Update(), Search()), CORE)
    weights, harness = 3 * 32 + 30, (1 + 9) * 32 + (1 + 9) * 4 + 30
    assert plan.cycle_rollouts() == 30 + weights + harness


def test_a_run_of_one_half_has_two_pairs_at_most() -> None:
    plan = plan_run(parts(training(lambda: Count(2)), Update()), CORE)
    assert plan.by_purpose()["test"] == Span(40, 2 * 40)
    assert plan.by_purpose()["score"] == Span.exactly(0)


def test_a_patient_rule_gives_a_span() -> None:
    def make(facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        result = yield WeightPhase(Patient(patience=2, cap=9))
        assert result.length == len(result.signals)
        yield HarnessPhase(Count(2))

    plan = plan_run(parts(make, Update(), Search()), CORE)
    assert plan.phases[1].length == Span(3, 9)
    assert plan.by_purpose()["train"] == Span(3 * 32, 9 * 32)
    assert plan.cycle_rollouts() == plan.first_cycle[0].rollouts.known + (3 * 32 + 30) + (
        4 * 32 + 4 * 4 + 30
    )


def test_a_rule_without_end_is_open_and_never_zero() -> None:
    def make(facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        yield WeightPhase(Patient(patience=2, cap=None))
        yield HarnessPhase(Count(2))

    plan = plan_run(parts(make, Update(), Search()), CORE)
    assert plan.phases[1].length == Span(3, None)
    assert plan.rollouts.most is None and plan.expected_rollouts() is None
    assert plan.rollouts.least > 0
    (note,) = plan.notes
    assert "no end" in note


def test_a_scheduler_without_end_is_not_waited_for() -> None:
    def make(facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        while True:
            yield WeightPhase(Count(1000))

    plan = plan_run(parts(make, Update()), CORE)
    assert plan.expected_rollouts() is None


def test_the_scheduler_decides_from_made_up_results() -> None:
    def make(facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        result = yield WeightPhase(Count(2))
        if result.signals[-1] > 0.5:  # search only what can be trained
            yield HarnessPhase(Count(2))

    plan = plan_run(parts(make, Update(), Search()), CORE)
    assert [p.kind for p in plan.phases] == ["start", "weights", "harness", "final"]
    assert plan.phases[2].rollouts.least == 0
    assert plan.phases[2].rollouts.most == 32 * 4 + 4 * 4 + 30


def test_what_does_not_say_its_cost_is_unknown() -> None:
    plan = plan_run(parts(alternating, Mute(), object()), CORE)
    by = plan.by_purpose()
    assert by["train"] == by["score"] == by["smoke"] == UNKNOWN
    assert by["select"] == Span.exactly(150)
    assert plan.expected_rollouts() is None
    assert len(plan.notes) == 2


def test_a_scheduler_that_takes_no_made_up_signal_stops_no_run() -> None:
    def make(facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        result = yield WeightPhase(Count(3))
        if max(result.signals) > 1.0:
            raise ValueError("a reward above one")
        yield WeightPhase(Count(1))

    plan = plan_run(parts(make, Update()), CORE)
    assert plan.expected_rollouts() is None
    (note,) = plan.notes
    assert "ValueError: a reward above one" in note


def test_walks_feed_every_signal_once() -> None:
    made = parts(training(lambda: Patient(3, 50)), Update())
    assert walk(made.scheduler, FACTS, never_rising).phases == (("weights", 4),)
    assert walk(made.scheduler, FACTS, always_rising).phases == (("weights", 50),)


@pytest.fixture
def plan() -> Plan:
    return plan_run(parts(alternating, Update(), Search()), CORE)


PRICES = Calibration(
    rollouts=100,
    batch_seconds=1.0,
    prompt_seconds=0.5,
    rollout_seconds=0.1,
    null_seconds=0.0,
    prompt_tokens=100.0,
    sampled_tokens=10.0,
    trajectory_bytes=2000.0,
    row_bytes=100.0,
    peak_memory_mb=512.0,
    reward=0.1,
    training=TrainingCost(update_seconds=2.0, token_seconds=0.01),
    checkpoint=CheckpointCost(weights_bytes=10_000, optimizer_bytes=60_000, seconds=3.0),
)


def test_costs_are_counts_times_prices(plan: Plan) -> None:
    costs = estimate(plan, CORE, PRICES)
    weights = costs.phases[1]
    train, select = 3 * 32, 30
    assert weights.prompt_tokens == Span.exactly((train + select) * 100)
    assert weights.trained_tokens == Span(0, train * 10)
    # Batches, prompts and draws: of three steps, and of one evaluation.
    assert weights.rollout_seconds == Span.exactly(
        round(3 * 1.0) + round(24 * 0.5) + round(train * 0.1) + 1 + 5 + 3
    )
    # Two updates a step at most, every token trained, one checkpoint at the end.
    assert weights.training_seconds == Span(0, 3 * 2 * 2 + round(train * 10 * 0.01) + 3)
    assert weights.stored_bytes.most == (train + select) * 2000 + train * 100 + 10_000
    assert costs.run.trained_tokens == Span(0, 5 * 32 * 10)
    # Two weight phases' checkpoints, one state, and another pair while it is replaced.
    kept = plan.rollouts.known * 2000 + 5 * 32 * 100 + 2 * 10_000 + 60_000
    assert costs.kept_bytes.most == kept
    assert costs.fullest_bytes.most == kept + 60_000 + 10_000


@pytest.mark.parametrize(
    ("cap", "needed"),
    [
        (CapSettings(rollouts=545), "546 rollouts"),
        (CapSettings(tokens=60_059), "about 60060 tokens"),
        (CapSettings(seconds=20.0), "seconds"),
    ],
)
def test_a_cap_below_one_cycle_is_refused(plan: Plan, cap: CapSettings, needed: str) -> None:
    assert plan.cycle_rollouts() == 546
    with pytest.raises(InputError, match=f"one cycle needs .*{needed}"):
        refuse_small_caps(plan, cap, estimate(plan, CORE, PRICES))


def test_a_cap_of_one_cycle_is_enough(plan: Plan) -> None:
    costs = estimate(plan, CORE, PRICES)
    refuse_small_caps(plan, CapSettings(rollouts=546, tokens=60_060), costs)
    refuse_small_caps(plan, CapSettings(), costs)
    refuse_small_caps(plan, CapSettings(tokens=5), None)  # nothing to go by


def test_a_run_says_that_its_cap_cuts_the_first_cycle(plan: Plan) -> None:
    small = CoreSettings(cap=CapSettings(rollouts=545))
    (note,) = cap_notes(small, plan)
    assert "546 rollouts" in note
    assert cap_notes(CoreSettings(cap=CapSettings(rollouts=546)), plan) == ()
    assert cap_notes(CoreSettings(), plan) == ()
