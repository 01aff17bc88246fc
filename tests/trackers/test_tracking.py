"""What the observer that all trackers share writes, over what, and what a failing one does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import evolve
from trackers_kit import Told

from whale_core.plugins.events import RunInfo
from whale_core.records import Spent
from whale_core.roles import CandidateReport, Harness, Score, SearchIteration
from whale_trackers import Tracking
from whale_trackers.numbers import of_search_iteration


class Kept:
    """A tracker that keeps what it is given, or fails at ``fails``."""

    def __init__(self, fails: str = "") -> None:
        self.fails, self.calls, self.points = fails, [], []  # type: ignore[var-annotated]

    def begin(self, run: RunInfo, axis: str) -> None:
        self._called("begin")

    def write(self, values: Mapping[str, float], axis: str, x: float) -> None:
        self._called("write")
        self.points.append((axis, x, dict(values)))

    def end(self) -> None:
        self._called("end")

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name == self.fails:
            raise OSError("no connection")


def test_names_and_values(tmp_path: Path) -> None:
    kept = Kept()
    told = Told(tmp_path / "run", Tracking(kept, prefix="w/"))
    told.steps([1])
    told.end()
    (_, _, step), (_, _, score), (_, _, phase) = kept.points
    assert step == {
        "w/train/step": 1.0,
        "w/train/reward": 0.1,
        "w/train/accepted": 0.25,
        "w/train/updates": 1.0,
        "w/train/loss": 1.0,
        "w/train/trained_tokens": 0.0,
        "w/train/seconds": 0.0,
        "w/train/rollout_seconds": 0.0,
    }
    below = "w/test/theta_h/"
    assert score == {
        f"{below}{k}": v
        for k, v in zip(("mean", "low", "high", "format"), (0.5, 0.2, 0.8, 1.0), strict=True)
    }
    assert phase == {"w/phase/number": 1.0, "w/phase/cycle": 1.0, "w/phase/weights_length": 4.0}
    assert kept.calls == ["begin", *["write"] * 3, "end"]


def test_numbers_of_a_search() -> None:
    harness = Harness("h1", "source")
    score = Score("h1", "w", 1.0, 1, 0, {"a": (1.0,)}, 1.0, 3)
    refused = CandidateReport(harness, "h0", "axis", "hypothesis", "changes")
    made = (evolve(refused, score=score), refused)
    iteration = SearchIteration(2, made, 0.75, harness, "better", 3.0, Spent(usd=0.5))
    assert of_search_iteration(iteration) == {
        "search/iteration": 2.0,
        "search/best": 0.75,
        "search/scored": 1.0,
        "search/refused": 1.0,
        "search/seconds": 3.0,
        "search/usd": 0.5,
    }


@pytest.mark.parametrize(
    ("x", "reached"),
    [
        ("rollouts", [8, 16, 24]),
        ("tokens", [100, 200, 300]),
        ("seconds", [2, 4, 6]),
        ("weight_step", [1, 2, 3]),
    ],
)
def test_what_the_numbers_are_drawn_over(x: str, reached: list[int], tmp_path: Path) -> None:
    """Also in a run that is continued, whose beginning this process has not seen."""
    first, second = Kept(), Kept()
    Told(tmp_path / "run", Tracking(first, x=x)).steps([1, 2])
    Told(tmp_path / "run", Tracking(second, x=x)).steps([3])
    assert [(axis, at) for axis, at, _ in first.points + second.points] == [(x, n) for n in reached]


def test_an_unknown_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="'x' must be in"):
        Tracking(Kept(), x="steps")


def test_one_that_fails_harms_neither_the_run_nor_the_others(tmp_path: Path) -> None:
    failing, kept = Kept("write"), Kept()
    told = Told(tmp_path / "run", Tracking(failing), Tracking(kept))
    told.steps([1, 2])
    assert len(kept.points) == 2
    error = ("observer 0", "whale_on_weight_step", "no connection")
    assert told.failed == [error, error]


def test_one_that_could_not_begin_says_so_once(tmp_path: Path) -> None:
    failing = Kept("begin")
    told = Told(tmp_path / "run", Tracking(failing))
    told.steps([1, 2])
    told.end()
    assert [hook for _, hook, _ in told.failed] == ["whale_on_run_started"]
    assert failing.calls == ["begin"]
