"""The simulation of the acceptance page, in small: what it promises of each rule holds."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from whale_metaharness.acceptance import make_rule
from whale_metaharness.config import Config

PAGE = Path(__file__).parents[2] / "docs" / "acceptance.md"
CONFIRMED = Config(acceptance="confirmed", candidates=4)
PHASES = 60


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "acceptance.py"
    spec = spec_from_file_location("acceptance_simulation", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("iterations", [1, 4])
def test_the_error_rate_is_a_phase_s_whatever_its_length(
    bench: ModuleType, iterations: int
) -> None:
    world = bench.World.of(0.4, 0)
    wrong = 0
    for number in range(PHASES):
        measures, _ = world.phase(number, 7)
        rule = make_rule(CONFIRMED, (), measures)
        wrong += asyncio.run(bench.accepted_by(rule, iterations)) != "h0000"
    assert wrong / PHASES <= 0.1 + 3 * (0.09 / PHASES) ** 0.5


def test_argmax_is_fooled_where_confirmed_is_not_and_both_find_what_is_large(
    bench: ModuleType,
) -> None:
    null, large = bench.World.of(0.4, 0), bench.World.of(0.4, 10)
    assert bench.simulate(Config(), null, 20, 7)["false"] > 0.7
    for rule in (Config(), CONFIRMED, Config(acceptance="halving")):
        assert bench.simulate(rule, large, 20, 7)["power"] >= 0.8


def test_halving_makes_no_more_rollouts_than_argmax(bench: ModuleType) -> None:
    world = bench.World.of(0.2, 2)
    spent = bench.simulate(Config(), world, 3, 7)["rollouts"]
    assert 0.98 * spent <= bench.simulate(Config(acceptance="halving"), world, 3, 7)["rollouts"]
    assert bench.simulate(Config(acceptance="halving"), world, 3, 7)["rollouts"] <= spent


def test_the_page_has_the_tables_of_the_program(bench: ModuleType) -> None:
    """A few phases of one world print lines of the page's form; the page names every rule."""
    page = PAGE.read_text(encoding="utf-8")
    rows = [{"rule": "argmax", **bench.simulate(Config(), bench.World.of(0.2, 5), 2, 0)}]
    head = bench.table("rule", rows).splitlines()[0]
    assert head in page
    for name in (*bench.RULES, *bench.CHOICES):
        assert f"| {name} |" in page


def test_a_line_of_the_page_is_what_the_program_prints(bench: ModuleType) -> None:
    row = {"rule": "argmax", **bench.simulate(Config(), bench.World.of(0.2, 5), 400, 0)}
    assert bench.table("rule", [row]).splitlines()[-1] in PAGE.read_text(encoding="utf-8")
