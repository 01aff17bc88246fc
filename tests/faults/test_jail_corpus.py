"""Every attempt of the corpus, next to well-behaved siblings: none succeeds, all else goes on."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from corpus_kit import (
    LIMITS,
    QUICK,
    Attempt,
    attempts,
    base,
    executor,
    left_over,
    play,
    toy,
)

from whale_core.errors import InputError
from whale_core.jail import PROCESS_JAIL_GAPS, probe
from whale_core.keys import DrawKey
from whale_core.records import Outcome, Trajectory
from whale_core.rollout.episode import Job
from whale_core.rollout.policy import NullPolicy
from whale_core.stats import exceeds_chance
from whale_core.testing.engine import CharTokenizer

CORPUS = [a for a in attempts() if a.needs in ("", os.uname().machine)]
CLASSES = {
    "files",
    "environment",
    "network",
    "processes",
    "ptrace and proc",
    "shared memory",
    "inherited handles",
    "links",
    "output",
    "recursion",
    "regular expressions",
    "processor",
    "memory",
    "frames and gc",
    "protocol",
    "smuggling",
    "reference",
    "solving",
}
SIBLINGS = 12  # well-behaved episodes in each batch
BATCH = 40  # attempts


def jail_or_skip(wanted: str) -> str:
    """Return the kind of jail, if it starts here."""
    try:
        return probe(wanted)
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that no harness should see, beside another one that nobody has read for long, and a
    variable in the environment."""
    monkeypatch.setenv("CORPUS_KEY", "secret")
    path = tmp_path / "secret"
    path.write_text("the reference")
    mark = tmp_path / "secret.mark"
    mark.touch()
    os.utime(mark, (1, 1))
    return path


def test_every_class_is_covered() -> None:
    counted = Counter(attempt.kind for attempt in attempts())
    assert set(counted) == CLASSES
    assert min(counted.values()) >= 2
    assert sum(counted.values()) >= 150


@pytest.mark.parametrize("group", LIMITS)
@pytest.mark.parametrize("jail", ["bubblewrap", pytest.param("process", marks=pytest.mark.slow)])
def test_no_attempt_succeeds(jail: str, group: str, secret: Path) -> None:
    check(jail_or_skip(jail), group, [a for a in CORPUS if a.group == group], secret)


def test_the_weaker_jail_cannot_stop_what_it_says(secret: Path) -> None:
    check(jail_or_skip("process"), "quick", [a for a in CORPUS if a.gap is not None], secret)


def check(kind: str, group: str, chosen: list[Attempt], secret: Path) -> None:
    """Play attempts next to well-behaved siblings; each must end as it must, all else go on."""
    limits = LIMITS[group]
    runner, honest = executor(limits, kind), base(toy(limits))
    calm = play(runner, {honest: SIBLINGS})["base"]
    assert {trajectory.outcome for trajectory in calm} == {Outcome.PASS}
    wrong = []
    for start in range(0, len(chosen), BATCH):
        batch = {a.harness(secret): a.episodes for a in chosen[start : start + BATCH]}
        made = play(runner, {honest: SIBLINGS, **batch})
        assert made["base"] == calm
        for attempt in chosen[start : start + BATCH]:
            wrong += problems(attempt, made[attempt.name], kind)
    assert not wrong, "\n".join(wrong)
    assert play(runner, {honest: SIBLINGS})["base"] == calm
    assert not left_over()


def problems(attempt: Attempt, made: list[Trajectory], kind: str) -> list[str]:
    """Say in which episodes an attempt did not end as it must."""
    ended = [t.answer if t.reason is None and t.answer is not None else t.reason for t in made]
    good = [re.match(attempt.ends, reason or "") and reason != "SUCCEEDED" for reason in ended]
    if kind == "process" and attempt.gap is not None:
        succeeded = any((reason or "").startswith("SUCCEEDED") for reason in ended)
        good = [succeeded or attempt.process.startswith("may")] * len(made)
    scored = all(t.outcome is not Outcome.NOT_SCORED for t in made)
    return [] if all(good) and scored else [f"{attempt.name}: {set(ended)}"]


def test_the_gaps_of_the_weaker_jail_are_those_that_are_listed() -> None:
    gaps = {attempt.gap for attempt in CORPUS} - {None}
    assert gaps == set(PROCESS_JAIL_GAPS)


@pytest.mark.parametrize("attempt", [a for a in CORPUS if a.gate], ids=lambda a: a.name)
def test_a_null_model_finds_out_what_solves_the_task_itself(attempt: Attempt, secret: Path) -> None:
    domain = toy(QUICK)
    jobs = [
        Job(example, attempt.harness(secret), DrawKey(0, "null", 1, 1, example.id, 0))
        for example in domain.split("harness")
    ]
    null = next(null for null in domain.null_models if null.name == "names-everything")
    policy = NullPolicy(null, CharTokenizer())
    made = asyncio.run(executor(QUICK, probe("process")).run(jobs, policy))
    passed = sum(t.outcome is Outcome.PASS for t in made)
    chance = null.chance([domain.environment(job.example).view() for job in jobs])
    assert exceeds_chance(passed, len(made), chance) < 0.001


def test_the_documented_numbers_are_those_of_the_corpus() -> None:
    page = (Path(__file__).parents[2] / "docs/jail.md").read_text(encoding="utf-8")
    for name, count in Counter(attempt.kind for attempt in attempts()).items():
        assert f"| {name} | {count} |" in page
