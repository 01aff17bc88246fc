"""Every scheduler drives a run of the real parts, to the phases that it promises."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_kit
from run_kit import blocks_of, result_of

from whale_schedulers.rules import Plateau

Whale = Callable[..., subprocess.CompletedProcess[str]]

# The toy domain has 8 steps to the epoch, of 64 rollouts; a search of 2 iterations makes 16.
SMALL = (
    "domain.harness=16",
    "search.examples=8",
    "selection.examples=4",
    "test.examples=4",
    "test.draws=1",
    "harness_search.candidates=1",
)
SETTINGS = {
    "patience": (
        *("total_epochs=0.75", "min_epochs=0.125", "window_epochs=0.125", "patience_epochs=0.125"),
        *("min_iterations=2", "patience_iterations=1", "max_iterations=3"),
    ),
    "final-search": ("epochs=0.125", "total_epochs=0.25", "iterations=2"),
    "order-swap": ("epochs=0.125", "total_epochs=0.25", "iterations=2"),
    "budget-share": ("share=0.1", "total_epochs=0.25", "iterations=2"),
    "stagewise": ("epochs=0.25", "iterations=3"),
}
# One process for all: the model is loaded once.
RUN_ALL = """
import sys
from whale_core.cli.main import main
for line in sys.argv[1:]:
    if code := main(line.split(" ")):
        sys.exit(code)
"""


@pytest.fixture(scope="module")
def runs(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schedulers")
    lines = [
        " ".join(
            ["run", "--plugin-set", "smoke", "--run-dir", str(folder / name), f"scheduler={name}"]
            + [f"scheduler.{setting}" for setting in settings]
            + list(SMALL)
        )
        for name, settings in SETTINGS.items()
    ]
    done = warm_kit.run(
        lines, code=RUN_ALL, timeout=580, env={**os.environ, "WHALE_STATE": str(state)}
    )
    assert done.returncode == 0, done.stderr
    return folder


def phases_of(folder: Path) -> list[dict[str, Any]]:
    """Return the finished phases of a run, without the start."""
    return [block for block in blocks_of(folder) if block["event"] == "phase_done"][1:]


@pytest.mark.parametrize(
    ("name", "phases"),
    [
        ("final-search", "W1 H2 | W1 H2"),
        ("order-swap", "H2 W1 | H2 W1"),
        ("budget-share", "W1 H2 | W1"),
        ("stagewise", "W2 H3"),
    ],
)
def test_the_phases_and_their_cycles(runs: Path, name: str, phases: str) -> None:
    cycles: dict[int, list[str]] = {}
    for phase in phases_of(runs / name):
        letter = {"weights": "W", "harness": "H"}[phase["kind"]]
        cycles.setdefault(phase["cycle"], []).append(f"{letter}{phase['result']['length']}")
    assert list(cycles) == list(range(1, len(cycles) + 1))
    assert " | ".join(" ".join(each) for each in cycles.values()) == phases


def test_patience_ends_phases_where_its_rule_says(runs: Path) -> None:
    """The recorded training rewards, given to the rule alone, end each phase at its last step."""
    left, phases = 6, phases_of(runs / "patience")
    for phase in phases:
        signals = phase["result"]["signals"]
        rule = Plateau(2, 1, most=left if phase["kind"] == "weights" else 3)
        ends = [rule.observe(signal) for signal in signals]
        assert ends == [False] * (len(signals) - 1) + [True]
        left -= len(signals) if phase["kind"] == "weights" else 0
    assert left == 0
    assert [phase["kind"] for phase in phases[::2]] == ["weights"] * len(phases[::2])
    assert phases[-1]["kind"] == "weights"


@pytest.mark.parametrize("name", SETTINGS)
def test_they_end_in_a_result(runs: Path, name: str) -> None:
    result = result_of(runs / name)
    assert result["ended"] == "the scheduler's budget was used"
    assert set(result["pairs"]) == {"theta0_h0", "theta0_h", "theta_h0", "theta_h"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("patience", "min_iterations=17"), "scheduler.max_iterations: must be >= min_iterations"),
        (("patience", "min_gain=-1"), "scheduler.min_gain: must be >= 0"),
        (("budget-share", "share=0.01"), "scheduler.share: 0.01 beside 512 training rollouts does"),
    ],
)
def test_what_cannot_be_planned_leaves_no_run_folder(
    whale: Whale, tmp_path: Path, settings: tuple[str, str], words: str
) -> None:
    name, setting = settings
    folder = tmp_path / "run"
    options = ("--plugin-set", "smoke", "--run-dir", str(folder), f"scheduler={name}")
    done = whale("run", *options, f"scheduler.{setting}")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr
    assert not folder.exists()
