"""The phases that each scheduler yields, from the start and on resume."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale_core.config.structure import structure
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.plugins.registered import Origin
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase
from whale_schedulers import plugin
from whale_schedulers.budget_share import BudgetShare
from whale_schedulers.config import (
    BudgetShareConfig,
    DiagnosticConfig,
    EvaluationOnlyConfig,
    FixedConfig,
    HarnessOnlyConfig,
    PatienceConfig,
    StagewiseConfig,
    WeightOnlyConfig,
)
from whale_schedulers.diagnostic import Diagnostic
from whale_schedulers.epochs import phase_lengths
from whale_schedulers.fixed import FinalSearch, Fixed, OrderSwap, Stagewise
from whale_schedulers.patience import Patience
from whale_schedulers.rules import FixedCount, Plateau
from whale_schedulers.single import EvaluationOnly, HarnessOnly, WeightOnly

SETUP = Setup(seed=0)


def facts_of(steps_per_epoch: int) -> RunFacts:
    """64 rollouts a weight step, 16 for a harness: a search of n iterations makes 32 n - 16."""
    return RunFacts(steps_per_epoch, rollouts_per_step=64, rollouts_per_score=16, candidates=2)


def result_of(phase: Phase, signals: Sequence[float]) -> PhaseResult:
    kind = "weights" if isinstance(phase, WeightPhase) else "harness"
    return PhaseResult(kind, 1, len(signals), tuple(signals))


def advance(
    phases: Generator[Phase, PhaseResult, None], results: Sequence[PhaseResult]
) -> list[Phase]:
    """Return the phases yielded while ``results`` are sent, the one after them included."""
    seen = [next(phases)]
    for result in results:
        try:
            seen.append(phases.send(result))
        except StopIteration:
            break
    return seen


def run_out(
    scheduler: Any, steps_per_epoch: int, signal: float = 0.25, rise: float = 0.0
) -> tuple[list[Phase], list[PhaseResult]]:
    """Run a scheduler to its end, driving each rule by signals as the loop does."""
    phases = scheduler.phases(facts_of(steps_per_epoch))
    seen: list[Phase] = []
    results: list[PhaseResult] = []
    phase = next(phases)
    while phase is not None:
        seen.append(phase)
        signals = [signal]
        while not phase.until.observe(signals[-1]):
            signals.append(signals[-1] + rise)
        results.append(result_of(phase, signals))
        try:
            phase = phases.send(results[-1])
        except StopIteration:
            break
    return seen, results


def lengths(results: Sequence[PhaseResult]) -> str:
    return " ".join(f"{'W' if r.kind == 'weights' else 'H'}{r.length}" for r in results)


def shape(phases: Sequence[Phase]) -> list[tuple[str, int | None]]:
    return [("W" if isinstance(p, WeightPhase) else "H", p.until.planned()) for p in phases]


def test_fixed_alternates_and_ends_with_weights() -> None:
    scheduler = Fixed(FixedConfig(epochs=0.125, iterations=3, total_epochs=0.375), SETUP)
    seen, results = run_out(scheduler, steps_per_epoch=64)
    assert shape(seen) == [("W", 8), ("H", 3), ("W", 8), ("H", 3), ("W", 8)]
    assert [result.length for result in results] == [8, 3, 8, 3, 8]


def test_fixed_rounds_cumulatively() -> None:
    # 0.3 epochs of 85 steps are 25.5: ends at 26, 51, 76.5 -> 77, and 0.1 more at 85
    assert list(phase_lengths(0.3, 1.0, 85)) == [26, 25, 26, 8]
    # as decimals: one tenth ten times is one epoch, although floats disagree
    assert list(phase_lengths(0.1, 1.0, 10)) == [1] * 10
    assert list(phase_lengths(0.2, 1.0, 5)) == [1] * 5


@pytest.mark.parametrize("cls", [Fixed, OrderSwap, FinalSearch])
def test_the_first_phase_of_a_very_long_run_is_there_at_once(cls: type[Any]) -> None:
    scheduler = cls(FixedConfig(epochs=0.5, total_epochs=1e300), SETUP)
    first = list(islice(scheduler.phases(facts_of(8)), 1))
    assert shape(first)[0] in (("W", 4), ("H", 6))


def test_a_total_below_one_phase_is_one_phase() -> None:
    scheduler = Fixed(FixedConfig(epochs=0.5, iterations=3, total_epochs=0.25), SETUP)
    assert shape(run_out(scheduler, steps_per_epoch=8)[0]) == [("W", 2)]


decimals = st.integers(min_value=1, max_value=400).map(lambda n: n / 100)


@given(decimals, decimals, st.integers(min_value=1, max_value=1000))
def test_phases_do_not_drift(epochs: float, total: float, steps_per_epoch: int) -> None:
    lengths = list(phase_lengths(epochs, total, steps_per_epoch))
    assert min(lengths) >= 1
    end, exact_epochs, exact_total = 0, Fraction(repr(epochs)), Fraction(repr(total))
    assert len(lengths) == -(-exact_total // exact_epochs)
    if exact_epochs * steps_per_epoch < 1 or exact_total * steps_per_epoch < 1:
        return
    for number, length in enumerate(lengths[:-1], start=1):
        end += length
        assert abs(end - number * exact_epochs * steps_per_epoch) <= Fraction(1, 2)
    assert abs(sum(lengths) - exact_total * steps_per_epoch) <= 1  # a last phase has a step


def test_the_single_conditions() -> None:
    weights = WeightOnly(WeightOnlyConfig(epochs=0.375), SETUP)
    assert shape(run_out(weights, steps_per_epoch=64)[0]) == [("W", 24)]
    assert shape(run_out(weights, steps_per_epoch=1)[0]) == [("W", 1)]
    harness = HarnessOnly(HarnessOnlyConfig(iterations=6), SETUP)
    assert shape(run_out(harness, steps_per_epoch=64)[0]) == [("H", 6)]


FIXED = FixedConfig(epochs=0.3, iterations=3, total_epochs=1.0)


def test_the_rearrangements_of_fixed() -> None:
    assert lengths(run_out(Fixed(FIXED, SETUP), 10)[1]) == "W3 H3 W3 H3 W3 H3 W1"
    assert lengths(run_out(FinalSearch(FIXED, SETUP), 10)[1]) == "W3 H3 W3 H3 W3 H3 W1 H3"
    assert lengths(run_out(OrderSwap(FIXED, SETUP), 10)[1]) == "H3 W3 H3 W3 H3 W3 H3 W1"


def test_stagewise_is_all_of_each_once() -> None:
    stagewise = Stagewise(StagewiseConfig(epochs=2.7, iterations=32), SETUP)
    assert lengths(run_out(stagewise, 74)[1]) == "W200 H32"


# --- patience ------------------------------------------------------------------------------------


def test_the_published_settings_in_steps() -> None:
    """0.2 epochs of 74, 70 and 64 steps are 15, 14 and 13, as in the published launchers."""
    for per_epoch, n in ((74, 15), (70, 14), (64, 13), (1, 1)):
        phases = Patience(PatienceConfig(total_epochs=4.0), SETUP).phases(facts_of(per_epoch))
        weights = next(phases)
        left = 4 * per_epoch
        assert weights.until == Plateau(earliest=n + 1, patience=n, window=n, most=left)
        harness = phases.send(result_of(weights, [0.5] * (left - 1)))
        assert harness == HarnessPhase(until=Plateau(earliest=6, patience=2, most=16))


def test_without_gain_patience_is_as_short_as_it_can_be() -> None:
    scheduler = Patience(PatienceConfig(), SETUP)
    seen, results = run_out(scheduler, steps_per_epoch=10)  # n = 2; the last phase has 1 step left
    assert lengths(results) == "W3 H6 W3 H6 W3 H6 W1"
    assert shape(seen) == [("W", None), ("H", None)] * 3 + [("W", 1)]


def test_with_gain_it_goes_on_to_the_whole_budget() -> None:
    config = PatienceConfig(total_epochs=2.0)
    assert lengths(run_out(Patience(config, SETUP), 10, rise=0.01)[1]) == "W20"


def test_the_cap_of_a_search_that_gains_for_ever() -> None:
    phases = Patience(PatienceConfig(), SETUP).phases(facts_of(10))
    harness = phases.send(result_of(next(phases), [0.5] * 4))
    steps = [harness.until.observe(step / 100) for step in range(16)]
    assert steps == [False] * 15 + [True]


def test_every_phase_begins_its_patience_anew() -> None:
    """A weight phase whose rewards are all below the last one's lives as long as any other."""
    phases = Patience(PatienceConfig(), SETUP).phases(facts_of(10))
    first = next(phases)
    assert [first.until.observe(0.9) for _ in range(3)] == [False, False, True]
    second = phases.send(result_of(phases.send(result_of(first, [0.9] * 3)), [0.5] * 6))
    assert [second.until.observe(r) for r in (0.1, 0.2, 0.3, 0.4)] == [False] * 4


def test_all_settings_of_patience_arrive() -> None:
    config = PatienceConfig(
        total_epochs=3.0,
        min_epochs=0.1,
        window_epochs=0.4,
        patience_epochs=0.5,
        min_iterations=3,
        patience_iterations=4,
        max_iterations=9,
        full_windows=True,
        min_gain=0.02,
    )
    phases = Patience(config, SETUP).phases(facts_of(10))
    weights = next(phases)
    assert weights.until == Plateau(2, 5, 4, full_windows=True, min_gain=0.02, most=30)
    harness = phases.send(result_of(weights, [0.5] * 12))
    assert harness.until == Plateau(3, 4, min_gain=0.02, most=9)
    last = phases.send(result_of(harness, [0.5] * 9))
    assert last.until.most == 18


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=80), st.integers(100, 3000))
def test_patience_spends_the_rollouts_it_is_given(signals: list[float], total: int) -> None:
    """All but less than one step, and it ends with weights, however the signals fall."""
    facts = RunFacts(steps_per_epoch=5, rollouts_per_step=64, rollouts_per_score=39)
    config = PatienceConfig(total_epochs=100.0, total_rollouts=total)
    endless, spent, kinds = iter(signals * 100), 0, ""
    phases = Patience(config, SETUP).phases(facts)
    phase: Phase | None = next(phases)
    while phase is not None:
        taken = [next(endless)]
        while not phase.until.observe(taken[-1]):
            taken.append(next(endless))
        kinds += shape([phase])[0][0]
        weights = isinstance(phase, WeightPhase)
        spent += 64 * len(taken) if weights else facts.search_rollouts(len(taken))
        phase = next_of(phases, result_of(phase, taken))
    assert total - 64 < spent <= total
    assert kinds == "W" + "HW" * (len(kinds) // 2)


def next_of(phases: Any, result: PhaseResult) -> Phase | None:
    try:
        return phases.send(result)  # type: ignore[no-any-return]
    except StopIteration:
        return None


def test_where_no_search_can_be_paid_for_the_weights_take_it_all() -> None:
    facts = RunFacts(steps_per_epoch=5, rollouts_per_step=64, rollouts_per_score=39)
    config = PatienceConfig(total_epochs=100.0, total_rollouts=64 * 7)
    until = next(Patience(config, SETUP).phases(facts)).until
    assert until.planned() is None  # after two steps a search and one more step fit
    assert [until.observe(0.0) for _ in range(2)] == [False, True]
    config = PatienceConfig(total_epochs=100.0, total_rollouts=64 * 5)
    assert next(Patience(config, SETUP).phases(facts)).until.planned() == 5


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        (RunFacts(5), "does not say how many rollouts"),
        (RunFacts(5, rollouts_per_step=64), "does not say how many rollouts"),
        (RunFacts(5, rollouts_per_step=64, rollouts_per_score=9), "=63 does not pay for one"),
    ],
)
def test_rollouts_that_cannot_be_planned_are_refused(facts: RunFacts, match: str) -> None:
    scheduler = Patience(PatienceConfig(total_rollouts=63), SETUP)
    with pytest.raises(InputError, match=match):
        next(scheduler.phases(facts))


signals_of = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=80, max_size=80)


@given(signals_of, st.integers(1, 30), st.floats(0.1, 3.0).map(lambda n: round(n, 2)))
def test_patience_trains_exactly_its_budget(
    signals: list[float], per_epoch: int, total: float
) -> None:
    endless = iter(signals * 100)
    phases = Patience(PatienceConfig(total_epochs=total), SETUP).phases(facts_of(per_epoch))
    phase: Phase | None = next(phases)
    trained, kinds = 0, ""
    while phase is not None:
        taken = [next(endless)]
        while not phase.until.observe(taken[-1]):
            taken.append(next(endless))
        kinds += shape([phase])[0][0]
        trained += len(taken) if isinstance(phase, WeightPhase) else 0
        try:
            phase = phases.send(result_of(phase, taken))
        except StopIteration:
            phase = None
    budget = WeightOnly(WeightOnlyConfig(epochs=total), SETUP).phases(facts_of(per_epoch))
    assert trained == next(budget).until.planned()
    assert kinds == "WH" * (len(kinds) // 2) + "W"


# --- budget-share --------------------------------------------------------------------------------


def test_a_share_becomes_whole_searches_between_equal_phases() -> None:
    # 10 steps of 64 are 640 rollouts; 3 iterations are 80. A fifth of all is 160: two searches.
    config = BudgetShareConfig(share=0.2, iterations=3)
    assert lengths(run_out(BudgetShare(config, SETUP), 10)[1]) == "W3 H3 W3 H3 W4"


def test_the_published_shares_come_out() -> None:
    """SearchQA: 296 steps of 2,048; a search is 256 x (1 + 5 x 3). Six are 3.9 percent."""
    facts = RunFacts(74, rollouts_per_step=2048, rollouts_per_score=256, candidates=3)
    assert facts.search_rollouts(6) == 4096
    config = BudgetShareConfig(share=0.039, total_epochs=4.0)
    phases = advance(BudgetShare(config, SETUP).phases(facts), [PhaseResult("", 0, 0, ())] * 12)
    assert [p.until.planned() for p in phases if isinstance(p, HarnessPhase)] == [6] * 6
    weights = [p.until.planned() for p in phases if isinstance(p, WeightPhase)]
    assert weights == [42, 42, 42, 43, 42, 42, 43]


@given(
    st.floats(0.01, 0.9).map(lambda n: round(n, 3)),
    st.integers(2, 10),
    st.integers(1, 300),
    st.integers(1, 100),
)
def test_no_other_number_of_searches_is_nearer_to_the_share(
    share: float, iterations: int, steps: int, per_step: int
) -> None:
    facts = RunFacts(steps, rollouts_per_step=per_step, rollouts_per_score=8, candidates=2)
    scheduler = BudgetShare(BudgetShareConfig(share=share, iterations=iterations), SETUP)
    trained, each = steps * per_step, facts.search_rollouts(iterations)
    goal = Fraction(repr(share)) / (1 - Fraction(repr(share))) * trained
    try:
        phases = list(scheduler.phases(facts))
    except InputError:
        assert goal < Fraction(each, 2) or goal >= (steps - Fraction(1, 2)) * each
        return
    searches = [phase for phase in phases if isinstance(phase, HarnessPhase)]
    assert abs(len(searches) * each - goal) <= Fraction(each, 2)
    weights = [p.until.planned() for p in phases if isinstance(p, WeightPhase)]
    assert sum(weights) == steps and max(weights) - min(weights) <= 1
    assert "".join(kind for kind, _ in shape(phases)) == "WH" * len(searches) + "W"


@pytest.mark.parametrize(
    ("settings", "facts", "words"),
    [
        ({"share": 0.01}, facts_of(10), "640 training rollouts does not pay for one search"),
        ({"share": 0.9, "iterations": 2}, facts_of(10), "room for 9 between them"),
        ({}, RunFacts(10), "does not say how many rollouts"),
    ],
)
def test_a_share_that_cannot_be_met_is_refused(
    settings: dict[str, Any], facts: RunFacts, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        next(BudgetShare(BudgetShareConfig(**settings), SETUP).phases(facts))
    message = str(refused.value)
    assert message.startswith("scheduler.share: ") and words in message and "\n" not in message


# --- diagnostic ----------------------------------------------------------------------------------

# 10 steps of 64 rollouts an epoch: a budget of 640. A search of 2 iterations makes 48, of 3 80.
PROBES = DiagnosticConfig(probe_iterations=2, probe_epochs=0.1, iterations=3, epochs=0.2)


def diagnosed(gains: dict[str, list[float | None]], config: DiagnosticConfig = PROBES) -> str:
    """Return the phases where each coordinate's phases gain these (the last one from then on)."""
    phases = Diagnostic(config, SETUP).phases(facts_of(10))
    given = {kind: iter(each) for kind, each in gains.items()}
    last: dict[str, float | None] = {}
    seen = []
    phase: Phase | None = next(phases)
    while phase is not None:
        kind = "weights" if isinstance(phase, WeightPhase) else "harness"
        last[kind] = next(given[kind], last.get(kind))
        length = phase.until.planned()
        assert length is not None
        seen.append(PhaseResult(kind, 1, length, (0.9,) * length, last[kind]))
        try:
            phase = phases.send(seen[-1])
        except StopIteration:
            phase = None
    return lengths(seen)


@pytest.mark.parametrize(
    ("harness", "weights", "expected"),
    [
        ([0.3], [0.1], "H2 W1 H3 H3 H3 H3 H3 H3 H2"),  # the last search is cut
        ([0.1], [0.3], "H2 W1 W2 W2 W2 W2"),
        ([0.1], [0.1], "H2 W1 H3 W2 H3 H3 H3 H3"),  # per rollout: 1/48 > 1/64, 1/80 < 1/64, …
        ([0.0], [0.0], "H2 W1 H3 W2 H3 W2 H3"),  # neither gains: in turn
        ([-0.2], [0.0], "H2 W1 H3 W2 H3 W2 H3"),  # a loss is no gain
        ([None], [None], "H2 W1 H3 W2 H3 W2 H3"),  # of an older version's journal
        ([0.3, 0.0], [0.1, 0.0], "H2 W1 H3 W2 H3 W2 H3"),  # both stall after the probes
        ([0.3, 0.3, 0.0], [0.1, 0.1], "H2 W1 H3 H3 W2 W2 W1 H2"),  # the search stalls
    ],
)
def test_the_better_confirmed_gain_gets_the_next_phase(
    harness: list[float | None], weights: list[float | None], expected: str
) -> None:
    assert diagnosed({"harness": harness, "weights": weights}) == expected


def test_signals_of_a_search_alone_prove_nothing() -> None:
    """Signals rise in every phase here; no gain was confirmed, so neither is preferred."""
    scheduler = Diagnostic(PROBES, SETUP)
    assert lengths(run_out(scheduler, 10, rise=0.05)[1]).startswith("H2 W1 H3 W2 H3 W2")


@given(
    st.lists(st.sampled_from([-0.1, 0.0, 0.05, 0.3]), min_size=1, max_size=40),
    st.integers(2, 40),
    st.floats(0.5, 4.0).map(lambda n: round(n, 2)),
)
def test_diagnostic_keeps_to_its_budget(gains: list[float], per_epoch: int, total: float) -> None:
    facts = facts_of(per_epoch)
    config = DiagnosticConfig(probe_iterations=2, total_epochs=total)
    phases = Diagnostic(config, SETUP).phases(facts)
    budget = 64 * max(1, int(Fraction(repr(total)) * per_epoch + Fraction(1, 2)))
    spent, number = 0, 0
    try:
        phase = next(phases)
        while True:
            length = phase.until.planned()
            assert length is not None
            weights = isinstance(phase, WeightPhase)
            spent += 64 * length if weights else facts.search_rollouts(length)
            gain = gains[number % len(gains)]
            number += 1
            kind = "weights" if weights else "harness"
            phase = phases.send(PhaseResult(kind, 1, length, (0.5,) * length, gain))
    except StopIteration:
        assert budget - 64 < spent <= budget
    except InputError:
        assert budget < 48 + 64 * max(1, round(0.1 * per_epoch))


@pytest.mark.parametrize(
    ("settings", "facts", "words"),
    [
        ({"total_epochs": 0.2}, facts_of(10), "two probes need 144"),
        ({}, RunFacts(10), "does not say how many rollouts"),
    ],
)
def test_a_budget_that_pays_for_no_probes_is_refused(
    settings: dict[str, Any], facts: RunFacts, words: str
) -> None:
    with pytest.raises(InputError, match=words) as refused:
        next(
            Diagnostic(DiagnosticConfig(**{"probe_iterations": 3, **settings}), SETUP).phases(facts)
        )
    assert "\n" not in str(refused.value)


def test_evaluation_only_has_no_phase() -> None:
    assert list(EvaluationOnly(EvaluationOnlyConfig(), SETUP).phases(facts_of(10))) == []


# --- all of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scheduler",
    [
        Fixed(FixedConfig(epochs=0.3, iterations=2, total_epochs=1.0), SETUP),
        FinalSearch(FIXED, SETUP),
        OrderSwap(FIXED, SETUP),
        Stagewise(StagewiseConfig(epochs=0.5, iterations=4), SETUP),
        Patience(PatienceConfig(total_epochs=1.5), SETUP),
        BudgetShare(BudgetShareConfig(share=0.3, iterations=3), SETUP),
        WeightOnly(WeightOnlyConfig(epochs=0.5), SETUP),
        HarnessOnly(HarnessOnlyConfig(iterations=4), SETUP),
        Diagnostic(PROBES, SETUP),
    ],
    ids=lambda scheduler: type(scheduler).__name__,
)
@pytest.mark.parametrize("rise", [0.0, 0.01, -0.01])
def test_recorded_results_lead_a_fresh_generator_to_the_same_phases(
    scheduler: Any, rise: float
) -> None:
    original, results = run_out(scheduler, steps_per_epoch=10, rise=rise)
    for done in range(len(results)):
        fresh = advance(scheduler.phases(facts_of(10)), results[:done])
        assert (
            fresh == original[: done + 1]
        )  # rules compare by what they plan, not by what they saw


def test_a_fixed_count_stops_at_its_count() -> None:
    rule = FixedCount(3)
    assert rule.planned() == 3
    assert [rule.observe(0.9), rule.observe(0.0), rule.observe(0.5)] == [False, False, True]


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (FixedConfig, {"epochs": 0.0}),
        (FixedConfig, {"total_epochs": -1.0}),
        (FixedConfig, {"iterations": 1}),
        (WeightOnlyConfig, {"epochs": 0.0}),
        (HarnessOnlyConfig, {"iterations": 1}),
        (StagewiseConfig, {"iterations": 1}),
        (BudgetShareConfig, {"share": 1.0}),
        (BudgetShareConfig, {"share": 0.0}),
        (PatienceConfig, {"window_epochs": 0.0}),
        (PatienceConfig, {"patience_iterations": 0}),
        (PatienceConfig, {"min_gain": -0.1}),
        (PatienceConfig, {"max_iterations": 5}),
        (PatienceConfig, {"min_iterations": 17}),
    ],
)
def test_settings_out_of_range_are_refused(config: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        config(**settings)


def test_every_wrong_setting_is_reported_at_its_path() -> None:
    def problems_of(**settings: Any) -> list[str]:
        problems: list[str] = []
        structure(settings, PatienceConfig, "scheduler", problems)
        return problems

    assert problems_of(min_iterations=17) == [
        "scheduler.max_iterations: must be >= min_iterations, 17: 16"
    ]
    assert problems_of(min_gain=-1.0, window_epoch=0.2, full_windows="yes") == [
        "scheduler.window_epoch: unknown key, did you mean 'window_epochs'?",
        "scheduler.full_windows: expected true or false, got str 'yes'",
        "scheduler.min_gain: must be >= 0.0: -1.0",
    ]
    assert problems_of(min_iterations=8, max_iterations=8) == []


BOTH = ("model_update", "harness_search")


@pytest.mark.parametrize(
    ("name", "needs", "first"),
    [
        ("fixed", BOTH, WeightPhase),
        ("patience", BOTH, WeightPhase),
        ("final-search", BOTH, WeightPhase),
        ("order-swap", BOTH, HarnessPhase),
        ("budget-share", BOTH, WeightPhase),
        ("stagewise", BOTH, WeightPhase),
        ("weight-only", ("model_update",), WeightPhase),
        ("harness-only", ("harness_search",), HarnessPhase),
        ("diagnostic", BOTH, HarnessPhase),
    ],
)
def test_the_package_registers_them(name: str, needs: tuple[str, ...], first: type) -> None:
    plugins = Plugins()
    plugins.add(plugin, Origin("whale-schedulers", "0", "schedulers"))
    assert plugins.failures == []
    config = plugins.config_class(plugins.get("scheduler", name))
    assert config.needs == needs
    scheduler = plugins.build("scheduler", name, config(), SETUP)
    assert isinstance(next(scheduler.phases(facts_of(100))), first)
