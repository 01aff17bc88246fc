"""Alarms as pure functions: each threshold from both sides, and a run that needs none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from worlds_kit import LetterEngine

from whale_core.cli.main import main
from whale_core.evidence.alarms import (
    PhaseFacts,
    StepFacts,
    phase_facts,
    policy_alarms,
    search_alarms,
    step_facts,
)
from whale_core.run.reader import StoredRun
from whale_core.stats import Interval

START = StepFacts(0, prompts=32, draws=8, nll=1.0, answers=6.0, mean=0.3, any_pass=0.8)
GONE = {"nll": 0.1, "answers": 1.2, "mean": 0.5}


def steps(**last: Any) -> list[StepFacts]:
    """Return three steps as at first and three with ``last``."""
    return [evolve(START, step=i + 1, **(last if i >= 3 else {})) for i in range(6)]


@pytest.mark.parametrize(
    ("last", "names"),
    [
        ({}, []),
        (GONE, ["entropy"]),
        ({**GONE, "nll": 0.3}, []),  # lower, as it must be
        ({**GONE, "answers": 2.0}, []),  # draws still differ
        ({**GONE, "mean": 0.95}, []),  # they are alike because they are right
        ({**GONE, "nll": None}, []),  # an endpoint that tells none
        ({"any_pass": 0.45, "mean": 0.35}, ["pass@k"]),
        ({"any_pass": 0.75, "mean": 0.35}, []),  # a small drop
        ({"any_pass": 0.45, "mean": 0.0}, []),  # everything fell: no matter of concentration
        ({**GONE, "any_pass": 0.5}, ["entropy", "pass@k"]),
    ],
)
def test_a_collapsing_policy(last: dict[str, Any], names: list[str]) -> None:
    assert [alarm.name for alarm in policy_alarms(steps(**last))] == names


def test_few_prompts_say_little() -> None:
    drop = [evolve(each, prompts=2) for each in steps(any_pass=0.5)]
    assert policy_alarms(drop) == []  # three of six prompts, after five of six
    assert policy_alarms(steps(**GONE)[:5]) == []  # not two windows yet


NONE, SOME = Interval(0.0, -0.05, 0.05), Interval(0.1, 0.02, 0.18)


def phases(*gains: Interval | None, trained: Interval = SOME) -> list[PhaseFacts]:
    made = []
    for number, gain in enumerate(gains):
        made.append(PhaseFacts(2 * number + 1, "weights", trained, 1000))
        made.append(PhaseFacts(2 * number + 2, "harness", gain, 500, (0.1, 0.2)))
    return made


@pytest.mark.parametrize(
    ("facts", "rings"),
    [
        (phases(SOME, NONE, NONE), True),
        (phases(NONE), False),  # one phase is no series
        (phases(NONE, SOME), False),
        (phases(SOME, NONE), False),
        (phases(Interval(0.1, -0.01, 0.2), Interval(0.1, -0.01, 0.2)), False),  # pays, unconfirmed
        (phases(Interval(0.01, -0.1, 0.1), Interval(0.0, -0.1, 0.1)), True),
        ([PhaseFacts(1, "harness", None, 10, (0.1, 0.3, 0.3, 0.2, 0.3, 0.3, 0.1))], True),
        ([PhaseFacts(1, "harness", None, 10, (0.1, 0.3, 0.3, 0.2, 0.3, 0.3, 0.4))], False),
        ([PhaseFacts(1, "harness", None, 10, (0.3, 0.3, 0.3))], False),
        ([], False),
    ],
)
def test_a_search_that_stopped_paying(facts: list[PhaseFacts], rings: bool) -> None:
    assert [alarm.name for alarm in search_alarms(facts)] == ["search"] * rings


def stored(step: int, example: str, answer: str, reward: float, *logprobs: float) -> dict[str, Any]:
    return {
        "outcome": "pass" if reward else "fail",
        "key": {"step": step},
        "example": example,
        "answer": answer,
        "reward": reward,
        "calls": [{"logprobs": list(logprobs)}],
    }


def test_facts_of_steps() -> None:
    made = [
        stored(2, "a", "x", 1.0, -1.0, -3.0),
        stored(2, "a", " x ", 1.0, -2.0),
        stored(2, "b", "y", 0.0, -2.0),
        stored(2, "b", "z", 0.0),
        {**stored(2, "b", "z", 0.0, -99.0), "outcome": "not_scored"},
        stored(1, "c", "x", 0.0, 0.0, 0.0),
    ]
    first, second = step_facts(made)
    assert first == StepFacts(1, 1, 1.0, None, 1.0, 0.0, 0.0)
    assert second == StepFacts(2, 2, 2.0, 2.0, 1.5, 0.5, 0.5)


@pytest.mark.slow
def test_a_run_is_read(
    run_folder: Path, engines: list[LetterEngine], capsys: pytest.CaptureFixture[str]
) -> None:
    run = StoredRun.open(run_folder)
    facts = step_facts(run.stored_rollouts(purpose="train"))
    told = [line for line in run.entries if line["event"] == "weight_step"]
    assert [each.step for each in facts] == [line["step"] for line in told]
    assert [each.mean for each in facts] == pytest.approx([line["reward"] for line in told])
    assert all(each.nll == 1.0 and each.draws == 4 for each in facts)  # as the engine says
    first, harness, second = phase_facts(run)
    assert (first.kind, first.rollouts, second.rollouts) == ("weights", 32, 32)
    assert (harness.kind, len(harness.best)) == ("harness", 3) and harness.rollouts > 32
    assert first.gain is not None
    assert main(["status", str(run_folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["alarms"] == []
