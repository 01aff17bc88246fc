"""What is set on a Weights & Biases run that the program has open, without the library."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from trackers_kit import Told

from whale_trackers import to_wandb


class HostRun:
    """Keeps what is defined and logged."""

    def __init__(self) -> None:
        self.axes: list[tuple[str, str | None]] = []
        self.logged: set[str] = set()

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes.append((name, step_metric))

    def log(self, values: Mapping[str, float]) -> None:
        assert values.keys() <= {name for name, _ in self.axes}, "logged before it was defined"
        self.logged.update(values)


def test_only_the_names_that_are_written_get_our_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern such as ``*`` would draw the program's own metrics over the run's rollouts."""
    host = HostRun()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=host))
    told = Told(tmp_path / "run", to_wandb())
    told.steps([1, 2])
    told.end()
    assert told.failed == []
    assert sorted(name for name, _ in host.axes) == sorted(host.logged)  # each once, no pattern
    assert {axis for name, axis in host.axes if name != "rollouts"} == {"rollouts"}
