"""A whole run as an observer sees it: what docs/hooks.md promises of when, how often and order."""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from run_kit import journal_of

from whale_core.config import resolve
from whale_core.plugins import hookimpl, hookspecs
from whale_core.plugins.manager import load_plugins
from whale_core.run.session import run

OBSERVED = [
    name
    for name in vars(hookspecs)
    if name.startswith("whale_") and not name.startswith("whale_register_")
]
SHORT = [
    "scheduler.epochs=0.125",
    "scheduler.total_epochs=0.25",
    "domain.harness=16",
    "search.examples=4",
    "selection.examples=4",
    "test.examples=4",
    "test.draws=1",
]


def recorder(seen: list[tuple[str, dict[str, Any]]], fails: bool = False) -> object:
    """Return an observer of every hook; one that ``fails`` raises each time."""
    members: dict[str, Any] = {}
    for name in OBSERVED:
        arguments = ", ".join(inspect.signature(getattr(hookspecs, name)).parameters)
        space: dict[str, Any] = {"seen": seen}
        body = f"seen.append(('{name}', dict(locals())))" + ("; 1 / 0" if fails else "")
        exec(f"def {name}(self, {arguments}): {body}", space)
        members[name] = hookimpl(space[name])
    return type("Recorder", (), members)()


def test_a_run_is_told_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHALE_STATE", str(tmp_path / "state"))
    seen: list[tuple[str, dict[str, Any]]] = []
    plugins = load_plugins()
    plugins.observe(recorder([], fails=True), "acme tracker")
    plugins.observe(recorder(seen), "recorder")
    plugins.observe(recorder([], fails=True), "other tracker")
    result = run(resolve(plugins, "smoke", [], SHORT), plugins, tmp_path / "run")

    told = [name.removeprefix("whale_") for name, _ in seen]
    kept = [name for name in told if name != "on_rollouts"]
    assert kept == [
        "on_run_started",
        "on_evaluation",  # phase 0
        "before_phase",
        "on_weight_step",
        "on_evaluation",
        "after_phase",
        "before_phase",
        *["on_search_iteration"] * 2,
        "on_evaluation",
        "after_phase",
        "before_phase",
        "on_weight_step",
        "on_evaluation",
        "after_phase",
        *["on_evaluation"] * 4,
        "on_run_finished",
    ]
    evaluated = [each["evaluation"] for name, each in seen if name == "whale_on_evaluation"]
    assert [each.split for each in evaluated] == ["selection"] * 4 + ["test"] * 4
    assert [each.pair for each in evaluated[:4]] == [f"phase {number}" for number in range(4)]
    assert len({each.pair for each in evaluated}) == 8
    finished = seen[-1][1]
    assert finished["result"] == result and finished["run"] == seen[0][1]["run"]

    batches = [each for name, each in seen if name == "whale_on_rollouts"]
    assert batches and all(0 < each["done"] <= each["total"] for each in batches)
    assert {each["purpose"] for each in batches} >= {"train", "score", "select", "test"}
    assert batches[-1]["done"] == batches[-1]["total"]

    journal = journal_of(tmp_path / "run")
    errors = [line for line in journal if line.get("note") == "observer_error"]
    counts = Counter((each["plugin"], each["hook"]) for each in errors)
    expected = Counter(name for name, _ in seen)
    for plugin in ("acme tracker", "other tracker"):
        assert {hook: counts[plugin, hook] for hook in expected} == dict(expected)
