"""An engine that takes messages: the core counts what it tells, and trains on none of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from whale_core.abilities import TakesMessages
from whale_core.errors import InputError
from whale_core.jail import probe
from whale_core.keys import DrawKey, content_hash
from whale_core.plugins import Setup
from whale_core.records import (
    UNKNOWN_TOKEN,
    Call,
    Fault,
    Generation,
    GenerationRequest,
    Message,
    Outcome,
    Refusal,
    Sampling,
    Spent,
)
from whale_core.roles import Harness
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy, Turn
from whale_core.rollout.rows import build_rows
from whale_core.run.ledger import rollout_charge
from whale_core.run.stored import read_trajectory, trajectory_json
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig


class Endpoint(ScriptedEngine):
    """Answers each request as planned; tells counts only."""

    trains = False
    takes_weights = False
    priced = True
    notes = ()

    def __init__(self, *planned: Any) -> None:
        super().__init__(lambda prompt, rng: "")
        self.planned = list(planned)
        self.asked: list[GenerationRequest] = []

    async def probe(self, sampling: Sampling) -> Spent:
        return Spent(1, 1, 0, 1)

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Any]:
        self.asked += requests
        return [self.planned[i % len(self.planned)] for i in range(len(requests))]


def unknown(count: int) -> np.ndarray:
    return np.full(count, UNKNOWN_TOKEN, np.int32)


TOLD = Generation(
    token_ids=unknown(3),
    logprobs=np.zeros(3, np.float32),
    text="yes",
    finish_reason="end",
    weights_id="w",
    cached_tokens=2,
    prompt_ids=unknown(5),
    usd=0.25,
)


def turn(**more: Any) -> Turn:
    usual: dict[str, Any] = {
        "view": {},
        "messages": (Message("tool", "<s>"), Message("user", "q")),
        "tools": [{"name": "t"}],
        "max_tokens": 7,
        "stop": ("x",),
        "budget": 64,
        "key": DrawKey(0, "score", 1, 1, "e", 0),
        "calls": (),
    }
    return Turn(**{**usual, **more})


def reply(engine: Endpoint, count: int = 1, **more: Any) -> list[Any]:
    policy = EnginePolicy(engine, Sampling())
    return list(asyncio.run(policy.reply([turn(**more)] * count)))


def test_messages_go_as_they_are_and_counts_come_back() -> None:
    engine = Endpoint(TOLD)
    assert isinstance(engine, TakesMessages)
    assert not isinstance(ScriptedEngine(lambda prompt, rng: ""), TakesMessages)
    (call,) = reply(engine)
    (asked,) = engine.asked
    assert asked.messages == turn().messages and asked.tools == [{"name": "t"}]
    assert len(asked.prompt_ids) == 0 and (asked.max_tokens, asked.stop) == (7, ("x",))
    assert (len(call.prompt_ids), len(call.token_ids), call.cached_tokens) == (5, 3, 2)
    assert (call.usd, call.messages) == (0.25, turn().messages)


def test_a_prompt_s_estimated_length_only_shortens_the_reply() -> None:
    engine = Endpoint(TOLD)
    engine.max_context = 10
    assert isinstance(reply(engine, max_tokens=None)[0], Call)
    assert engine.asked[0].max_tokens == 6  # four characters are four tokens here
    reply(engine, messages=(Message("user", "long" * 9),))
    assert engine.asked[1].max_tokens == 1


def test_more_or_fewer_tokens_than_asked_for_are_the_endpoint_s_affair() -> None:
    many = evolve(TOLD, token_ids=unknown(9), logprobs=np.zeros(9, np.float32))
    none = evolve(TOLD, token_ids=unknown(0), logprobs=np.zeros(0, np.float32), text="")
    short = evolve(TOLD, finish_reason="length")
    assert all(isinstance(each, Call) for each in reply(Endpoint(many, none, short), 3))


WRONG = {
    "no prompt": evolve(TOLD, prompt_ids=None),
    "odd prompt": evolve(TOLD, prompt_ids=[1]),
    "ids": evolve(TOLD, token_ids=np.full(3, -2, np.int32)),
    "lengths": evolve(TOLD, logprobs=np.zeros(2, np.float32)),
    "nan": evolve(TOLD, logprobs=np.full(3, np.nan, np.float32)),
    "finish": evolve(TOLD, finish_reason="error"),
    "text": evolve(TOLD, text="\ud800"),
    "list": [],
}


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_that_cannot_be_right_is_a_fault(name: str) -> None:
    wrong, right = reply(Endpoint(WRONG[name], TOLD), 2)
    assert isinstance(wrong, Fault) and wrong.reason.startswith("engine: ")
    assert isinstance(right, Call)
    if name == "finish":
        assert wrong.spent == Spent(1, 5, 2, 3, 0.25)  # it was paid all the same


def test_an_engine_that_was_given_ids_must_not_tell_others() -> None:
    engine = ScriptedEngine(lambda prompt, rng: "a")
    made = asyncio.run(engine.generate([]))
    assert made == []

    class Telling(ScriptedEngine):
        async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
            made = await super().generate(requests)
            return [evolve(each, prompt_ids=unknown(1)) for each in made]

    policy = EnginePolicy(Telling(lambda prompt, rng: "a"), Sampling())
    messages = (Message("user", "q"),)
    (answer,) = asyncio.run(policy.reply([turn(messages=messages, tools=None)]))
    assert isinstance(answer, Fault)


def test_an_engine_says_itself_whose_fault_it_was() -> None:
    spent = Spent(1, 2, 0, 1, 0.5)
    fault, refusal, call = reply(Endpoint(Fault("down", spent), Refusal("context"), TOLD), 3)
    assert fault == Fault("engine: down", spent)
    assert refusal == Refusal("context")
    assert isinstance(call, Call)


def test_no_rows_are_made_without_token_ids() -> None:
    (call,) = reply(Endpoint(TOLD))
    with pytest.raises(InputError, match="no token ids"):
        build_rows([call])
    told = evolve(call, prompt_ids=np.array([1, 2], np.int32))
    with pytest.raises(InputError, match="no token ids"):
        build_rows([told])
    assert build_rows([evolve(told, token_ids=np.array([3, 4, 5], np.int32))])


def test_what_was_paid_is_in_trajectory_record_and_charge() -> None:
    domain = ToyDomain(DomainConfig(), Setup(0))
    source = domain.harnesses[domain.base_harness]
    harness = Harness(content_hash(source), source)
    jobs = [
        Job(example, harness, DrawKey(0, "score", 1, 1, example.id, 0))
        for example in domain.split("weight")[:3]
    ]
    told = evolve(TOLD, weights_id=content_hash("scripted"))
    paid = Spent(1, 2, 0, 1, 0.5)
    engine = Endpoint(told, Refusal("context", paid), Fault("down", paid))
    executor = RolloutExecutor(domain, ToyVerifier(VerifierConfig(), Setup(0)), probe("auto"))
    made = asyncio.run(executor.run(jobs, EnginePolicy(engine, Sampling())))
    assert [each.reason for each in made] == [None, "context", None]
    assert made[1].outcome is Outcome.FAIL
    # the third was made again once, and what its first try had cost is not forgotten
    assert [each.spent.usd for each in made] == [0.25, 0.5, 0.75]
    for each in made:
        again = read_trajectory(trajectory_json(each))
        assert again.spent == each.spent
        assert [call.usd for call in again.calls] == [call.usd for call in each.calls]
    charge = rollout_charge(made, "score", 1, 1, 1.0)
    assert (charge.usd, charge.calls, charge.prompt_tokens) == (1.5, 4, 14)
