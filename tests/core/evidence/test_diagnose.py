"""The diagnosis in worlds whose limiting coordinate is known, and what a probe leaves alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from worlds_kit import BOTH, LetterEngine, settings

from whale_core.cli.main import main
from whale_core.config import read_config, resolve
from whale_core.errors import CapReached, InputError
from whale_core.evidence.diagnosis import Cost, Gains, SearchFacts, TrainingFacts, diagnose
from whale_core.evidence.probe import probe_run, probe_set
from whale_core.evidence.probe_size import Budget, held_examples, lengths
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.roles import RunFacts
from whale_core.run.reader import StoredRun
from whale_core.stats import Interval
from whale_core.testing.toy import DomainConfig, ToyDomain

WORLDS: dict[str, tuple[Mapping[str, Any], str]] = {
    # always right, always hidden: training cannot even begin
    "harness-limited": ({"w": 6.0, "clutter": 1.0}, "letters"),
    # never hidden, rarely right
    "weight-limited": ({"w": -1.0, "clutter": 0.0}, "letters"),
    "both-limited": (BOTH, "letters"),
    # always hidden, and no edit reads past it
    "starved": ({"w": 0.0, "clutter": 1.0}, "deaf"),
}


def worlds() -> list[Any]:
    """Return the worlds, all but one slow: each takes some hundred episodes."""
    return [
        pytest.param(name, marks=[] if name == "weight-limited" else [pytest.mark.slow])
        for name in WORLDS
    ]


@pytest.mark.parametrize("verdict", worlds())
def test_the_diagnosis_is_right(verdict: str, engines: list[LetterEngine]) -> None:
    world, domain = WORLDS[verdict]
    plugins = load_plugins()
    resolved = resolve(plugins, settings(world, domain={"name": domain}), [], {})
    budget = Budget(rollouts=64, examples=32, draws=1)
    if verdict == "both-limited":  # gains of a quarter take more to be seen
        budget = Budget(rollouts=64, examples=48, draws=2)
    probed = probe_set(resolved, plugins, budget)
    assert probed.diagnosis.verdict == verdict
    assert probed.diagnosis.starved == (verdict in ("starved", "harness-limited"))
    assert (probed.training.accepted > 0) == (verdict in ("weight-limited", "both-limited"))
    # All that was asked of the engine is in the figures, and nothing besides.
    (engine,) = engines
    policy = probed.ledger
    assert {name: policy[name] for name in engine.generated} == engine.generated
    parts = (probed.search.cost, probed.training.cost, probed.confirmation)
    for name in ("rollouts", "prompt_tokens", "sampled_tokens", "trained_tokens"):
        assert sum(getattr(part, name) for part in parts) == policy[name], name
    assert probed.training.cost.rollouts == 64


def contents(folder: Path) -> dict[str, str]:
    """Return the hash of every file in a folder, and when each was written."""
    return {
        str(path.relative_to(folder)): f"{hashlib.sha256(path.read_bytes()).hexdigest()} "
        f"{path.stat().st_mtime_ns}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_a_run_is_probed_where_it_stands_and_only_read(
    run_folder: Path, engines: list[LetterEngine], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run_folder.parent)
    run = StoredRun.open(run_folder)
    last = run.ends()[-1]
    assert main(["diagnose", str(run_folder), "--rollouts", "32", "--examples", "8", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["state"]["weights_id"] == last.weights_id != run.ends()[0].weights_id
    assert told["state"]["harness_id"] == last.harness_id
    assert (told["state"]["phase"], told["state"]["step"]) == (last.phase, last.step)
    assert contents(run_folder.parent) == before  # the register of test openings, too
    assert not list(Path.cwd().iterdir())
    assert told["ledger"]["sampled_tokens"] == engines[0].generated["sampled_tokens"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_probe(run_folder: Path, engines: list[LetterEngine]) -> None:
    plugins = load_plugins()
    run = StoredRun.open(run_folder)
    resolved = read_config(plugins, run_folder / "config.yaml")
    budget = Budget(rollouts=32, examples=4, draws=1)
    told = [probe_run(run, resolved, plugins, budget).as_json() for _ in range(2)]
    for each in told:
        del each["seconds"], each["ledger"]
        for part in (each["search"], each["training"], *each["gains"].values()):
            del part["cost"]["seconds"]
        del each["confirmation"]["seconds"]
    assert told[0] == told[1]


def gain(mean: float, half: float = 0.05) -> Interval:
    return Interval(mean, mean - half, mean + half)


CASES = [
    # gains of harness, weights, both, ahead; updates; rollouts of search, training; verdict
    (0.2, 0.0, 0.2, 0.2, 3, 100, 100, "harness-limited"),
    (0.2, 0.0, 0.2, 0.2, 0, 100, 100, "harness-limited"),
    (0.0, 0.2, 0.2, -0.2, 3, 100, 100, "weight-limited"),
    (0.3, 0.1, 0.4, 0.2, 3, 100, 100, "harness-limited"),
    (0.1, 0.3, 0.4, -0.2, 3, 100, 100, "weight-limited"),
    (0.3, 0.3, 0.4, 0.01, 3, 100, 100, "both-limited"),
    (0.3, 0.1, 0.4, 0.2, 3, 900, 100, "both-limited"),  # ahead, but at nine times the rollouts
    (0.0, 0.0, 0.3, 0.0, 3, 100, 100, "both-limited"),
    (0.0, 0.0, 0.0, 0.0, 0, 100, 100, "starved"),
    (0.04, 0.04, 0.04, 0.0, 3, 100, 100, "undecided"),
    (-0.2, -0.2, -0.3, 0.0, 3, 100, 100, "undecided"),
]


@pytest.mark.parametrize("case", CASES)
def test_the_rule(case: tuple[Any, ...]) -> None:
    harness, weights, both, ahead, updates, search, training, verdict = case
    gains = Gains(
        gain(0.2), gain(harness), gain(weights), gain(both), gain(ahead), examples=48, draws=2
    )
    found = diagnose(
        gains,
        SearchFacts(3, 4, 0, "h0001", "best", harness != 0, Cost(rollouts=search)),
        TrainingFacts(3, 96, 96, 10 * updates, updates, (0.2,), None, Cost(rollouts=training)),
    )
    assert found.verdict == verdict
    assert found.starved == (updates == 0)
    assert found.rule and found.advice


@pytest.mark.parametrize(
    ("facts", "rollouts", "expected"),
    [
        (RunFacts(9, 192, 64, 3), None, (3, 4)),  # 576 and 64 + 3 * 192 rollouts
        (RunFacts(9, 192, 64, 3), 1024, (5, 6)),  # 960 and 64 + 5 * 192 rollouts
        (RunFacts(9, 192, 64, 3), 1, (1, 2)),  # never fewer
        (RunFacts(9, 0, 0), 500, (3, 3)),  # nobody says
    ],
)
def test_both_probes_take_about_the_same(
    facts: RunFacts, rollouts: int | None, expected: tuple[int, int]
) -> None:
    assert lengths(facts, rollouts) == expected


def test_confirming_examples_are_first_those_that_evaluations_leave_out() -> None:
    domain = ToyDomain(DomainConfig(selection=32), Setup(0))
    every, _ = held_examples(domain, 32, 32)
    held, note = held_examples(domain, 8, 24)
    assert held == every[:8] and not note
    _, note = held_examples(domain, 12, 24)
    assert note.startswith("4 of 12 confirming examples")
    held, note = held_examples(domain, 40, 8)
    assert len(held) == 32 and "has 32: all are used" in note


@pytest.mark.slow
def test_what_cannot_be_probed_is_said(engines: list[LetterEngine], tmp_path: Path) -> None:
    plugins = load_plugins()
    both = settings(BOTH)
    lone = {**both, "model_update": None, "scheduler": {"name": "harness-only"}}
    with pytest.raises(InputError, match="model_update is not set"):
        probe_set(resolve(plugins, lone, [], {}), plugins, Budget())
    with pytest.raises(InputError, match="--draws 0: give at least 1"):
        probe_set(resolve(plugins, both, [], {}), plugins, Budget(draws=0))
    capped = resolve(plugins, {**both, "cap": {"rollouts": 20}}, [], {})
    with pytest.raises(CapReached, match=r"`whale diagnose … cap\.rollouts=…`"):
        probe_set(capped, plugins, Budget(examples=16))
    assert main(["diagnose"]) == 2 and main(["diagnose", "nowhere"]) == 4
    assert main(["diagnose", "run", "seed=3"]) == 2
