"""The plugin sets `laptop-*`: one budget of rollouts for all of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache

import pytest
from attrs import evolve, frozen

from whale_core.config import Resolved, resolve
from whale_core.plugins.builtin import CONTROLS, LAPTOP
from whale_core.plugins.manager import Plugins, load_plugins
from whale_core.roles import HarnessPhase, Phase, PhaseResult, RunFacts, WeightPhase
from whale_core.run.outline import Outline, outlined
from whale_core.run.plan import Plan, always_rising, never_rising, plan_run, walk
from whale_schedulers.rules import FixedCount

BUDGET = 1500
WITHIN = 0.035
DOMAINS = ("chess", "math", "searchqa")
SCHEDULES = {  # steps and iterations of the phases
    "whale": "W3 H6 W3 H6 W3",
    "weight-only": "W18",
    "harness-only": "H27",
    "fst": "W3 H6 W3 H6 W3",
    "stagewise": "W9 H13",
    "order-swap": "H6 W5 H6 W4",
    "final-search": "W5 H6 W4 H6",
    "sweep-0.2-2": "W1 H2 W1 H2 W1 H2 W1 H2 W1 H2 W1 H2 W1",
    "sweep-0.2-6": "W1 H6 W1 H6 W1 H6 W1",
    "sweep-0.6-2": "W3 H2 W3 H2 W3 H2 W3",
    "sweep-0.6-6": "W3 H6 W3 H6 W3",
    "sweep-1.0-10": "W5 H10 W5",
    "random-edits": "W3 H6 W3 H6 W3",
}


@frozen
class Played:
    """A scheduler of phases that are as long as they turned out."""

    lengths: tuple[tuple[str, int | None], ...]

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Yield them."""
        for kind, length in self.lengths:
            until = FixedCount(length or 0)
            yield WeightPhase(until) if kind == "weights" else HarnessPhase(until)


@cache
def made(name: str, domain: str) -> tuple[Resolved, Outline]:
    plugins = loaded()
    resolved = resolve(plugins, f"laptop-{name}", (), (f"domain={domain}",))
    return resolved, outlined(resolved, plugins)


@cache
def loaded() -> Plugins:
    return load_plugins()


def planned(resolved: Resolved, outline: Outline, signal: Callable[[int], float]) -> Plan:
    """Return the plan of a run whose training signals are ``signal``."""
    played = walk(outline.scheduler, outline.facts, signal)
    assert not played.problem
    return plan_run(evolve(outline, scheduler=Played(played.phases)), resolved.core)


@pytest.mark.parametrize("domain", DOMAINS)
def test_all_make_the_same_rollouts(domain: str) -> None:
    """Selection and the final pass included, no candidate being refused."""
    totals = {}
    for name in LAPTOP:
        resolved, outline = made(name, domain)
        assert resolved.chosen["domain"].name == domain
        plan = planned(resolved, outline, never_rising)
        totals[name] = plan.expected_rollouts() or 0
        assert plan.phases[-1].rollouts.most == 4 * 40 * 2, name  # the final pass is the same size
    assert len(totals) == 14
    assert {name: n for name, n in totals.items() if abs(n - BUDGET) > WITHIN * BUDGET} == {}


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_make_as_many(name: str) -> None:
    for domain in DOMAINS:
        resolved, outline = made(name, domain)
        plan = planned(resolved, outline, never_rising)
        assert abs((plan.expected_rollouts() or 0) - BUDGET) <= WITHIN * BUDGET, domain
        assert resolved.chosen["engine"].name == (
            "null-model" if name == "null" else "transformers"
        )


def test_schedules_are_the_published_ones() -> None:
    for name, expected in SCHEDULES.items():
        _, outline = made(name, "chess")
        phases = walk(outline.scheduler, outline.facts, never_rising).phases
        assert " ".join(f"{kind[0].upper()}{n}" for kind, n in phases) == expected, name
    assert set(LAPTOP) == {*SCHEDULES, "adaptive"}


def test_an_adaptive_run_spends_the_same_however_its_phases_fall() -> None:
    resolved, outline = made("adaptive", "chess")
    whale = plan_run(made("whale", "chess")[1], resolved.core)
    phases = sum(whale.by_purpose()[purpose].known for purpose in ("train", "score"))

    def rising_then_flat(unit: int) -> float:
        return min(unit, 4.0)

    for signal in (never_rising, always_rising, rising_then_flat):
        by = planned(resolved, outline, signal).by_purpose()
        spent = by["train"].known + by["score"].known
        assert phases - 64 < spent <= phases
    names = ("min_epochs", "window_epochs", "patience_epochs", "min_iterations")
    tree = resolved.tree["scheduler"]
    assert [tree[name] for name in names] == [0.2, 0.2, 0.2, 6]  # published
    assert tree["patience_iterations"] == 2


def test_they_differ_in_their_condition_alone() -> None:
    whale = made("whale", "chess")[0].tree
    for name in LAPTOP:
        tree = made(name, "chess")[0].tree
        differing = {key for key in whale if tree.get(key) != whale[key]}
        assert differing <= {
            "weight-only": {"scheduler", "harness_search", "proposer", "test"},
            "harness-only": {"scheduler", "model_update", "test"},
            "fst": {"harness_search"},
            "random-edits": {"proposer"},
        }.get(name, {"scheduler"}), name
