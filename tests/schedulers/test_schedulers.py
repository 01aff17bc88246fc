"""The phases that each scheduler yields, from the start and on resume."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.plugins.registered import Origin
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase
from whale_schedulers import plugin
from whale_schedulers.config import FixedConfig, HarnessOnlyConfig, WeightOnlyConfig
from whale_schedulers.epochs import phase_lengths
from whale_schedulers.fixed import Fixed
from whale_schedulers.rules import FixedCount
from whale_schedulers.single import HarnessOnly, WeightOnly

SETUP = Setup(seed=0)


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


def run_out(scheduler: Any, steps_per_epoch: int) -> tuple[list[Phase], list[PhaseResult]]:
    """Run a scheduler to its end, driving each rule by signals as the loop does."""
    phases = scheduler.phases(RunFacts(steps_per_epoch))
    seen: list[Phase] = []
    results: list[PhaseResult] = []
    phase = next(phases)
    while phase is not None:
        seen.append(phase)
        signals = [0.25]
        while not phase.until.observe(signals[-1]):
            signals.append(0.25)
        kind = "weights" if isinstance(phase, WeightPhase) else "harness"
        results.append(PhaseResult(kind, 1, len(signals), tuple(signals)))
        try:
            phase = phases.send(results[-1])
        except StopIteration:
            break
    return seen, results


def shape(phases: Sequence[Phase]) -> list[tuple[str, int | None]]:
    return [("W" if isinstance(p, WeightPhase) else "H", p.until.planned()) for p in phases]


def test_fixed_alternates_and_ends_with_weights() -> None:
    scheduler = Fixed(FixedConfig(epochs=0.125, iterations=3, total_epochs=0.375), SETUP)
    seen, results = run_out(scheduler, steps_per_epoch=64)
    assert shape(seen) == [("W", 8), ("H", 3), ("W", 8), ("H", 3), ("W", 8)]
    assert [result.length for result in results] == [8, 3, 8, 3, 8]


def test_fixed_rounds_cumulatively() -> None:
    # 0.3 epochs of 85 steps are 25.5: ends at 26, 51, 76.5 -> 77, and 0.1 more at 85
    assert phase_lengths(0.3, 1.0, 85) == [26, 25, 26, 8]
    # as decimals: one tenth ten times is one epoch, although floats disagree
    assert phase_lengths(0.1, 1.0, 10) == [1] * 10
    assert phase_lengths(0.2, 1.0, 5) == [1] * 5


def test_a_total_below_one_phase_is_one_phase() -> None:
    scheduler = Fixed(FixedConfig(epochs=0.5, iterations=3, total_epochs=0.25), SETUP)
    assert shape(run_out(scheduler, steps_per_epoch=8)[0]) == [("W", 2)]


decimals = st.integers(min_value=1, max_value=400).map(lambda n: n / 100)


@given(decimals, decimals, st.integers(min_value=1, max_value=1000))
def test_phases_do_not_drift(epochs: float, total: float, steps_per_epoch: int) -> None:
    lengths = phase_lengths(epochs, total, steps_per_epoch)
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


@pytest.mark.parametrize(
    "scheduler",
    [
        Fixed(FixedConfig(epochs=0.3, iterations=2, total_epochs=1.0), SETUP),
        WeightOnly(WeightOnlyConfig(epochs=0.5), SETUP),
        HarnessOnly(HarnessOnlyConfig(iterations=4), SETUP),
    ],
)
def test_recorded_results_lead_a_fresh_generator_to_the_same_phases(scheduler: Any) -> None:
    original, results = run_out(scheduler, steps_per_epoch=10)
    for done in range(len(results)):
        fresh = advance(scheduler.phases(RunFacts(10)), results[:done])
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
    ],
)
def test_settings_out_of_range_are_refused(config: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        config(**settings)


@pytest.mark.parametrize(
    ("name", "needs", "first"),
    [
        ("fixed", ("model_update", "harness_search"), WeightPhase),
        ("weight-only", ("model_update",), WeightPhase),
        ("harness-only", ("harness_search",), HarnessPhase),
    ],
)
def test_the_package_registers_them(name: str, needs: tuple[str, ...], first: type) -> None:
    plugins = Plugins()
    plugins.add(plugin, Origin("whale-schedulers", "0", "schedulers"))
    assert plugins.failures == []
    config = plugins.config_class(plugins.get("scheduler", name))
    assert config.needs == needs
    scheduler = plugins.build("scheduler", name, config(), SETUP)
    assert isinstance(next(scheduler.phases(RunFacts(10))), first)
