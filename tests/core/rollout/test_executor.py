"""The executor with real jails and a scripted engine: outcomes, limits, provenance, parity."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from whale_core.jail import probe
from whale_core.keys import DrawKey, content_hash
from whale_core.plugins import Setup
from whale_core.records import Outcome, Sampling, Trajectory
from whale_core.roles import Harness
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy, NullPolicy
from whale_core.testing.engine import CharTokenizer, ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig

SETUP = Setup(0)
DOMAIN = ToyDomain(DomainConfig(), SETUP)
H0 = DOMAIN.harnesses[DOMAIN.base_harness]
KIND = probe("auto")


def harness(body: str) -> Harness:
    source = f"from whale_harness import BaseHarness\n\n\nclass Harness(BaseHarness):\n{body}"
    return Harness(content_hash(source), source)


def vowel(prompt: str, rng) -> str:
    letters = prompt.split("Letters: ")[-1][:6]
    return next(c for c in letters if c in "aeiou")


def anything(prompt: str, rng) -> str:
    return str(rng.choice(list(prompt.split("Letters: ")[-1][:6])))


def run(
    source: Harness, engine: ScriptedEngine, count: int = 6, purpose: str = "score", split="weight"
) -> list[Trajectory]:
    executor = RolloutExecutor(DOMAIN, ToyVerifier(VerifierConfig(), SETUP), KIND)
    jobs = [
        Job(example, source, DrawKey(0, purpose, 1, 1, example.id, 0))
        for example in DOMAIN.split(split)[:count]
    ]
    return asyncio.run(executor.run(jobs, EnginePolicy(engine, Sampling())))


BASE = Harness(content_hash(H0), H0)


def test_pass_and_fail_are_the_verifiers() -> None:
    made = run(BASE, ScriptedEngine(vowel))
    assert {t.outcome for t in made} == {Outcome.PASS}
    assert all(t.reason is None and t.reward == 1.0 and t.metrics["format"] == 1.0 for t in made)
    made = run(BASE, ScriptedEngine(lambda prompt, rng: "zzz"))
    assert {t.outcome for t in made} == {Outcome.FAIL}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "    async def run(self, task, model, env):\n"
            "        await model.chat([{'role': 'user', 'content': 'x'}])\n"
            "        vowel = next(c for c in 'aeiou' if c in task['letters'])\n"
            "        await env.call('say', letter=vowel)\n"
            "        return ''\n",
            "provenance",
        ),
        (
            "    async def run(self, task, model, env):\n"
            "        while True:\n"
            "            await model.chat([{'role': 'user', 'content': 'x'}])\n",
            "calls",
        ),
        (
            "    async def run(self, task, model, env):\n"
            "        while True:\n"
            "            try:\n"
            "                await env.call('nothing')\n"
            "            except Exception:\n"
            "                raise ValueError('gave up')\n",
            "error: ValueError: gave up",
        ),
        (
            "    async def run(self, task, model, env):\n        while True:\n            pass\n",
            "cpu",
        ),
    ],
)
def test_a_harness_that_misbehaves_fails_with_its_reason(body: str, reason: str) -> None:
    made = run(harness(body), ScriptedEngine(lambda prompt, rng: "zz"), count=2)
    assert [t.reason for t in made] == [reason] * 2
    assert {t.outcome for t in made} == {Outcome.FAIL}


def test_refused_calls_are_kept_with_their_error_and_change_no_metric() -> None:
    body = (
        "    async def run(self, task, model, env):\n"
        "        await model.chat([{'role': 'user', 'content': 'x'}])\n"
        "        for name, letter in (('nothing', 'a'), ('say', 'zz')):\n"
        "            try:\n"
        "                await env.call(name, letter=letter)\n"
        "            except Exception:\n"
        "                pass\n"
        "        await env.call('say', letter='q')\n"
    )
    (made,) = run(harness(body), ScriptedEngine(lambda prompt, rng: "zz"), count=1)
    assert made.reason == "provenance"
    errors = ["no tool 'nothing'; there are: say", "letter must be one character", "provenance"]
    assert [event.error for event in made.events] == errors
    assert all(event.result is None and event.after_call == 1 for event in made.events)
    assert made.answered == () and made.record == {"said": []}
    assert made.metrics == {"format": 0.0}
    (made,) = run(BASE, ScriptedEngine(vowel), count=1)
    assert [event.error for event in made.events] == [None] and made.answered == made.events


def test_token_budget_is_counted_over_calls() -> None:
    body = (
        "    async def run(self, task, model, env):\n"
        "        for _ in range(4):\n"
        "            await model.chat([{'role': 'user', 'content': 'x'}])\n"
        "        return ''\n"
    )
    made = run(harness(body), ScriptedEngine(lambda prompt, rng: "y" * 30), count=1)
    assert made[0].reason == "tokens"
    assert made[0].sampled_tokens == DOMAIN.limits.sampled_tokens


def strip(trajectories: list[Trajectory]) -> list[Trajectory]:
    """Leave out what may differ between equal rollouts: the time they took."""
    return [evolve(t, seconds=0.0) for t in trajectories]


def test_same_key_same_trajectory_in_any_company() -> None:
    whole = run(BASE, ScriptedEngine(anything), count=40)
    part = run(BASE, ScriptedEngine(anything), count=7)
    assert strip(whole[:7]) == strip(part)
    assert len({t.calls[0].text for t in whole}) > 1


def test_null_models_go_the_same_way_without_an_engine() -> None:
    executor = RolloutExecutor(DOMAIN, ToyVerifier(VerifierConfig(), SETUP), KIND)
    jobs = [
        Job(example, BASE, DrawKey(0, "null", 1, 1, example.id, 0))
        for example in DOMAIN.split("harness")
    ]
    for null in DOMAIN.null_models:
        made = asyncio.run(executor.run(jobs, NullPolicy(null, CharTokenizer())))
        assert all(t.reason is None for t in made)
        passed = sum(t.outcome is Outcome.PASS for t in made) / len(made)
        assert passed < 0.65
