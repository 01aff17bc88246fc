"""What stands in for a model: recorded replies and a person's, in real episodes."""

from __future__ import annotations

import asyncio

import pytest

from whale_core.errors import EngineError
from whale_core.jail import probe
from whale_core.keys import DrawKey, content_hash
from whale_core.plugins import Setup
from whale_core.records import Call, Outcome, Replayed, Sampling, ToolEvent, Trajectory
from whale_core.roles import Harness
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy, Policy, Turn
from whale_core.rollout.stand_ins import NO_REPLY, HandPolicy, RecordedPolicy
from whale_core.run.replay import replay
from whale_core.testing.engine import FaultyEngine, ScriptedEngine, dies
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig

SETUP = Setup(0)
DOMAIN = ToyDomain(DomainConfig(), SETUP)
VERIFIER = ToyVerifier(VerifierConfig(), SETUP)
EXAMPLE = DOMAIN.split("harness")[0]
TWICE = """
from whale_harness import BaseHarness
class Harness(BaseHarness):
    async def run(self, task, model, env):
        first = await model.chat([{"role": "user", "content": task["letters"]}], stop=["!"])
        again = [first, {"role": "user", "content": "again"}]
        second = await model.chat(again)
        try:
            await env.call("say", letter=second.text[:1])
            await env.call("sing")
        except Exception:
            pass
        return second.text
"""


def harness(source: str = TWICE) -> Harness:
    return Harness(content_hash(source), source, "twice")


def play(policy: Policy, source: str = TWICE, watch: list[object] | None = None) -> Trajectory:
    executor = RolloutExecutor(
        DOMAIN, VERIFIER, probe("auto"), (lambda each: None) if watch is None else watch.append
    )
    key = DrawKey(0, "try", 0, 0, EXAMPLE.id, 0)
    return asyncio.run(executor.run([Job(EXAMPLE, harness(source), key)], policy))[0]


def scripted(text: str = "abc") -> EnginePolicy:
    return EnginePolicy(ScriptedEngine(lambda prompt, rng: text), Sampling())


def again(recorded: Trajectory, source: str = TWICE) -> Replayed:
    return asyncio.run(replay(recorded, harness(source), EXAMPLE, DOMAIN, VERIFIER, probe("auto")))


def test_an_observer_sees_everything_in_order() -> None:
    seen: list[object] = []
    made = play(scripted(), watch=seen)
    assert [type(each) for each in seen] == [Turn, Call, Turn, Call, ToolEvent, ToolEvent]
    assert tuple(each for each in seen if isinstance(each, Call)) == made.calls
    assert tuple(each for each in seen if isinstance(each, ToolEvent)) == made.events
    assert made == play(scripted())  # being watched changes nothing


def test_recorded_replies_make_the_same_episode() -> None:
    recorded = play(scripted())
    assert play(RecordedPolicy(recorded)) == recorded
    assert again(recorded).differences == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"again"', '"once more"', "model call 2 puts other messages than the recorded one"),
        ("again = [first, {", "again = [{", "model call 2 puts other messages"),
        ("second.text[:1]", "second.text[1]", "environment call 1: "),
        ("return second.text", "return first.text[:1]", "answer: 'a' now, 'abc' recorded"),
        ("second = await model.chat(again)", "second = first", "model calls: 1 now, 2 recorded"),
        (
            "return second",
            "await model.chat(again)\n        return second",
            "it makes a model call",
        ),
        ("first = await", "1 / 0\n        first = await", "model calls: 0 now"),
    ],
)
def test_what_a_change_changes_is_said(old: str, new: str, said: str) -> None:
    changed = TWICE.replace(old, new)
    assert changed != TWICE
    differences = again(play(scripted()), changed).differences
    assert differences and differences[0].startswith(said)


def test_where_the_record_ends_so_does_the_episode() -> None:
    policy = RecordedPolicy(play(scripted()))
    made = play(policy, TWICE.replace('"again"', '"once more"'))
    assert (made.reason, made.outcome) == (NO_REPLY, Outcome.FAIL)
    assert policy.diverged is not None and policy.diverged[0] == 1


def test_what_the_model_refused_is_refused_again() -> None:
    engine = ScriptedEngine(lambda prompt, rng: "abc")
    engine.max_context = 40
    recorded = play(EnginePolicy(engine, Sampling()))
    assert (recorded.reason, len(recorded.calls)) == ("context", 1)
    assert again(recorded).differences == ()
    tools = TWICE.replace("model.chat(again)", 'model.chat(again, tools=[{"name": "x"}])')
    recorded = play(scripted(), tools)
    assert "does not support tools" in str(recorded.reason)
    assert again(recorded, tools).differences == ()


def test_a_harness_that_went_wrong_and_now_asks_on_has_changed() -> None:
    recorded = play(scripted(), TWICE.replace("again = [", "1 / 0\n        again = ["))
    assert recorded.reason == "error: ZeroDivisionError: division by zero"
    assert again(recorded).differences == ("it makes a model call more than the 1 recorded",)


def test_an_episode_that_was_not_scored_is_not_scored_again() -> None:
    faults = dict.fromkeys((1, 3), dies(EngineError("gone")))
    engine = FaultyEngine(lambda prompt, rng: "abc", faults)
    recorded = play(EnginePolicy(engine, Sampling()))
    assert recorded.outcome is Outcome.NOT_SCORED and len(recorded.calls) == 1
    assert again(recorded).differences == ()


def test_a_person_plays_by_the_same_rules() -> None:
    replies = iter(["so ! be it", "e", None])

    async def ask(turn: Turn) -> str | None:
        return next(replies)

    made = play(HandPolicy(ask))
    assert [(call.text, call.finish_reason) for call in made.calls] == [
        ("so !", "stop"),
        ("e", "end"),
    ]
    spoken = TWICE.replace("letter=second.text[:1]", 'letter="e"')

    async def other(turn: Turn) -> str | None:
        return "x"

    assert play(HandPolicy(other), spoken).reason == "provenance"
    limited = TWICE.replace("second = await", "for _ in range(9):\n            second = await")
    assert play(HandPolicy(other), limited).reason == "calls"
