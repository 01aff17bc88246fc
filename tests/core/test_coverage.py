"""The recorded simulations are of the current code, and keep what docs/statistics.md says."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from attrs import asdict

ROOT = Path(__file__).parents[2]
SPARE = 0.006  # four standard errors of a coverage of 95 % among 20,000


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    spec = spec_from_file_location("coverage_benchmark", ROOT / "benchmarks/coverage.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recorded(coverage: ModuleType) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(coverage.FILE.read_text())
    return data


def test_the_record_is_of_this_code(coverage: ModuleType, recorded: dict[str, Any]) -> None:
    assert recorded["source"] == coverage.source_hash(), f"run again: {recorded['command']}"
    grid = [asdict(world) for world in coverage.worlds()]
    assert [{name: cell[name] for name in grid[0]} for cell in recorded["cells"]] == grid
    crossed = [asdict(world) for world in coverage.crossed_worlds()]
    assert [{name: c[name] for name in crossed[0]} for c in recorded["crossed"]] == crossed
    page = (ROOT / "docs/statistics.md").read_text()
    assert coverage.tables(recorded) in page


@pytest.mark.parametrize(
    "cell",
    [
        (60, 8, 0.02, 0.3),
        (700, 1, 0.005, 0.0),
        (256, 8, 0.005, 0.8),
        (256, 1, 0.02, 0.3, "shared", 0.0),
        (60, 1, 0.2, 0.8, "repeated", 0.0),
    ],
)
def test_cells_come_out_again(
    coverage: ModuleType, recorded: dict[str, Any], cell: tuple[Any, ...]
) -> None:
    world = coverage.World(*cell)
    (expected,) = [
        each
        for each in recorded["cells"]
        if all(each[name] == value for name, value in asdict(world).items())
    ]
    found = coverage.simulate(world, 5_000, 500)
    assert found["coverage"] == pytest.approx(expected["coverage"], abs=4 * SPARE / 2)
    if "test" in expected:
        for level, share in expected["test"].items():
            assert found["test"][level] == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(
    "cell", [(5, 60, 8, 0.02, 0.0, "shared", 0.05), (10, 256, 1, 0.2, 0.2, "separate", 0.0)]
)
def test_cells_with_seeds_come_out_again(
    coverage: ModuleType, recorded: dict[str, Any], cell: tuple[Any, ...]
) -> None:
    world = coverage.Crossed(*cell)
    (expected,) = [c for c in recorded["crossed"] if asdict(world).items() <= c.items()]
    found = coverage.crossed_cell(world, 600)
    assert found["coverage"] == pytest.approx(expected["coverage"], abs=0.04)


def test_seeds_and_examples_together_cover(recorded: dict[str, Any]) -> None:
    """The level is kept; the least coverage is where few of 60 examples pass (docs)."""
    null = [cell["coverage"] for cell in recorded["crossed"] if cell["gain"] == 0]
    assert min(null) >= 0.94
    assert min(cell["coverage"] for cell in recorded["crossed"]) >= 0.925
    spread = [c["coverage"] for c in recorded["crossed"] if c["spread"] and c["p"] == 0.2]
    assert all(0.93 <= each <= 0.97 for each in spread)  # where both parts vary it is near 95 %


def test_coverage_and_level_are_kept(recorded: dict[str, Any]) -> None:
    for cell in recorded["cells"]:
        assert cell["coverage"] >= 0.93, cell
        assert cell["coverage"] <= max(0.97, cell["attainable"]) + SPARE, cell
        for level, share in cell.get("test", {}).items():
            assert share <= float(level) + 4 * np.sqrt(float(level) / recorded["tested"]), cell


def test_the_package_s_functions_are_what_is_simulated(coverage: ModuleType) -> None:
    from whale_core.stats import critical_value, mean_interval, mean_limits

    means = np.random.default_rng(2).integers(0, 9, 60) / 8
    low, high = mean_limits(
        np.array([means.mean()]), np.array([means.var(ddof=1)]), 60, 8, critical_value(60)
    )
    interval = mean_interval(means, 8)
    assert (interval.low, interval.high) == pytest.approx((low[0], high[0]))


def test_attainable_coverage_is_by_outcomes(coverage: ModuleType) -> None:
    # 0, 1, 2, 3 passes of 60 at 2 % and so on: nothing can be left out below (29.8 %).
    estimates = np.repeat([0.0, 0.1, 0.2, 0.3], [300, 650, 30, 20])
    assert coverage.attainable(estimates) == pytest.approx(0.98)
    # With five differing examples no p-value is under 1/32; with six one is, 1/64.
    assert coverage.attainable_null(np.array([5, 5])) == 1.0
    assert coverage.attainable_null(np.array([6])) == pytest.approx(1 - 2 / 64, abs=1e-5)
