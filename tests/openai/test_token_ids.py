"""Token ids that an endpoint tells: asked for, held to what it counts, refused where they lack."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from chat_server_kit import Answer, Body, Endpoint, completion, toy_reply
from endpoint_kit import SAMPLING, ask, generated, refused, turn

from whale_core.records import Fault, Generation, Message
from whale_core.rollout.policy import EnginePolicy
from whale_core.rollout.rows import build_rows
from whale_core.testing.contracts import check_endpoint
from whale_openai.config import Config
from whale_openai.engine import OpenAIEngine


def telling(body: Body, text: str, **choice: Any) -> dict[str, Any]:
    """An answer as vLLM gives it to ``return_token_ids``; ``choice`` replaces fields of it."""
    made = completion(body, text)
    prompt, sampled = (made["usage"][f"{name}_tokens"] for name in ("prompt", "completion"))
    if body.get("return_token_ids"):
        made["prompt_token_ids"] = list(range(100, 100 + prompt))
        told = [{"token": "t", "logprob": -0.5 - n} for n in range(sampled)]
        made["choices"][0] |= {
            "token_ids": list(range(7, 7 + sampled)),
            "logprobs": {"content": told if body.get("logprobs") else None},
            "stop_reason": None,
        }
    made["choices"][0] |= choice
    return made


@pytest.fixture
def vllm(endpoint: Endpoint) -> Endpoint:
    endpoint.plan = lambda number, body: Answer(telling(body, toy_reply(body)))
    return endpoint


def test_ids_are_asked_for_and_are_those_that_were_sampled(vllm: Endpoint, engines: Any) -> None:
    engine = engines(token_ids=True)
    assert engine.trains and not engine.takes_weights
    (made,) = generated(engine, [ask("abc", stop=("</a>",))])
    probe, body = vllm.bodies
    for asked in (probe, body):
        assert asked["return_token_ids"] is True and asked["logprobs"] is True
    assert body["stop"] == ["</a>"] and body["include_stop_str_in_output"] is True
    assert made.prompt_ids.tolist() == [100, 101, 102, 103]
    assert made.token_ids.tolist() == [7, 8] and made.logprobs.tolist() == [-0.5, -1.5]
    assert engine.facts()["token_ids"] is True
    assert any("log-probabilities of training rows" in note for note in engine.notes)


def test_nothing_is_asked_for_without_the_setting(vllm: Endpoint, engines: Any) -> None:
    engine = engines()
    assert not engine.trains
    generated(engine, [ask("abc", stop=("</a>",))])
    for body in vllm.bodies:
        unasked = {"return_token_ids", "logprobs", "stop", "include_stop_str_in_output"}
        assert not unasked & body.keys()
    assert "token_ids" not in engine.facts()  # a run that was started earlier can be continued
    with pytest.raises(ValueError, match="cannot set return_token_ids"):
        Config(model="m", extra={"return_token_ids": True})


def test_the_contract_of_an_engine_that_trains(vllm: Endpoint, key: str) -> None:
    config = Config(base_url=vllm.url, model="toy-model", api_key_env="TOY_KEY", token_ids=True)
    check_endpoint(OpenAIEngine, config)

    class Silent(OpenAIEngine):
        def __init__(self, config: Config, setup: Any) -> None:
            super().__init__(Config(vllm.url, "toy-model", "TOY_KEY"), setup)
            self.trains = True

    with pytest.raises(AssertionError, match="lacks token ids"):
        check_endpoint(Silent, config)


def test_an_endpoint_that_ignores_the_question_is_refused_at_the_start(
    endpoint: Endpoint, engines: Any
) -> None:
    line = refused(engines(token_ids=True))
    assert "engine.token_ids=true needs" in line and "return_token_ids" in line
    assert "\n" not in line and len(endpoint.bodies) == 1
    reply = {"error": {"message": "extra fields not permitted: return_token_ids"}}
    endpoint.plan = lambda number, body: Answer(reply, 422)
    line = refused(engines(token_ids=True))
    assert "422" in line and "engine.token_ids" in line


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"choice": {"token_ids": None}}, "ids of all tokens"),
        ({"choice": {"token_ids": [7]}}, "ids of all tokens"),
        ({"choice": {"token_ids": [7, -1]}}, "ids of all tokens"),
        ({"prompt_token_ids": None}, "ids of all tokens"),
        ({"prompt_token_ids": [1]}, "ids of all tokens"),
        ({"choice": {"logprobs": None}}, "log-probability of every sampled token"),
        (
            {"choice": {"logprobs": {"content": [{"logprob": -1.0}]}}},
            "log-probability of every sampled token",
        ),
        ({"text": "x</a>y"}, "does not end with the stop string"),
        ({"choice": {"stop_reason": "</a>"}}, "does not end with the stop string"),
    ],
)
def test_what_makes_no_row_is_a_fault_and_is_paid(
    changed: dict[str, Any], said: str, endpoint: Endpoint, engines: Any
) -> None:
    """A shorter list of ids than was counted must never become a row."""
    more = dict(changed)

    def plan(number: int, body: Body) -> Answer:
        if not number:
            return Answer(telling(body, "x"))
        choice = more.get("choice", {})
        made = telling(body, more.get("text", "x"), **choice)
        made |= {name: value for name, value in more.items() if name not in ("choice", "text")}
        return Answer(made)

    endpoint.plan = plan
    (made,) = generated(engines(token_ids=True), [ask("abc", stop=("</a>",))])
    assert isinstance(made, Fault) and said in made.reason
    assert made.spent.prompt_tokens == endpoint.usages[1]["prompt_tokens"]


def test_a_reply_that_ends_with_its_stop_string_is_whole(endpoint: Endpoint, engines: Any) -> None:
    endpoint.plan = lambda number, body: Answer(telling(body, "x</a>", stop_reason="</a>"))
    (made,) = generated(engines(token_ids=True), [ask("abc", stop=("</a>",))])
    assert isinstance(made, Generation)
    assert (made.text, made.finish_reason, made.token_ids.tolist()) == ("x</a>", "stop", [7, 8])


def test_reasoning_and_tool_calls_are_sampled_tokens_of_the_row(
    endpoint: Endpoint, engines: Any
) -> None:
    """A harness sees the call as text and no reasoning; the row has every token of both."""
    call = {"id": "c", "function": {"name": "look", "arguments": '{"word": "x"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "hm hm"}

    def plan(number: int, body: Body) -> Answer:
        made = telling(body, "five words of reasoning and call")
        made["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}
        return Answer(made)

    endpoint.plan = plan
    (made,) = generated(engines(token_ids=True), [ask("abc", tools=[{"name": "look"}])])
    assert made.text == '<tool_call>\n{"name": "look", "arguments": {"word": "x"}}\n</tool_call>'
    assert made.token_ids.tolist() == list(range(7, 14)) and made.finish_reason == "end"


def test_rows_are_what_the_core_makes_of_them(vllm: Endpoint, engines: Any) -> None:
    async def work(engine: OpenAIEngine) -> list[Any]:
        try:
            return await EnginePolicy(engine, SAMPLING).reply([turn((Message("user", "a b"),))])
        finally:
            await engine.close()

    engine = engines(token_ids=True)
    asyncio.run(engine.probe(SAMPLING))
    (row,) = build_rows(asyncio.run(work(engine)))
    assert row.input_ids.tolist() == [100, 101, 7, 8]
    assert row.loss_mask.tolist() == [0, 0, 1, 1]
    assert row.logprobs.tolist() == [0.0, 0.0, -0.5, -1.5]
