"""The real SDK against a real server: accounts, order, retries, and whose fault an error is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from chat_server_kit import KEY, SERVED, Answer, Body, Endpoint, completion, error, words
from endpoint_kit import SAMPLING, ask, generated, refused, run, texts, turn

from whale_core.abilities import TakesMessages
from whale_core.chat_completions import Prices
from whale_core.errors import EngineError, InputError
from whale_core.records import (
    UNKNOWN_TOKEN,
    Fault,
    Generation,
    Message,
    Refusal,
)
from whale_core.rollout.policy import EnginePolicy
from whale_openai.config import Config
from whale_openai.engine import OpenAIEngine


def test_what_is_asked_and_what_comes_back(endpoint: Endpoint, engines: Any) -> None:
    engine = engines(prices=Prices(input=2.0, cached=0.5, output=10.0))
    assert isinstance(engine, TakesMessages)
    (made,) = generated(engine, [ask("abcdef", tools=None)])
    probe, body = endpoint.bodies
    assert probe["max_tokens"] == 1
    assert body["messages"] == [
        {"role": "system", "content": "Say one."},
        {"role": "user", "content": "Letters: abcdef"},
    ]
    assert (body["model"], body["max_tokens"]) == ("toy-model", 8)
    assert (body["temperature"], body["top_p"]) == (0.7, 0.9)
    assert 0 <= body["seed"] < 1 << 31
    assert not body.keys() & {"top_k", "stop", "tools", "n", "logprobs", "stream"}
    assert isinstance(made, Generation) and made.text in "abcdef"
    usage = endpoint.usages[1]
    assert len(made.prompt_ids) == usage["prompt_tokens"] == 4
    assert len(made.token_ids) == len(made.logprobs) == usage["completion_tokens"] == 2
    assert set(made.token_ids) | set(made.prompt_ids) == {UNKNOWN_TOKEN}
    assert made.cached_tokens == 2
    assert made.usd == pytest.approx((2 * 2.0 + 2 * 0.5 + 2 * 10.0) / 1e6)
    assert set(endpoint.keys) == {f"Bearer {KEY}"}


def test_settings_reach_the_endpoint(endpoint: Endpoint, engines: Any) -> None:
    engine = engines(
        limit_field="max_completion_tokens",
        send=("top_k",),
        logprobs=True,
        extra={"include_stop_str_in_output": True, "reasoning": {"effort": "low"}},
    )
    (made,) = generated(engine, [ask("abc", stop=("</a>",), tools=[{"name": "look"}])])
    body = endpoint.bodies[1]
    assert body["max_completion_tokens"] == 8 and "max_tokens" not in body
    assert body["top_k"] == 12 and not body.keys() & {"temperature", "top_p", "seed"}
    assert body["logprobs"] is True and body["reasoning"] == {"effort": "low"}
    assert body["stop"] == ["</a>"]
    assert body["tools"] == [{"type": "function", "function": {"name": "look"}}]
    assert isinstance(made, Generation)
    assert any("temperature and rollout.top_p" in note for note in engine.notes)


def test_seeds_follow_the_draw_and_nothing_else(endpoint: Endpoint, engines: Any) -> None:
    requests = [ask("abc", 0), ask("abc", 1), ask("abc", 0)]
    made = generated(engines(), requests)
    seeds = {texts(b): set() for b in endpoint.bodies}
    for body in endpoint.bodies[1:]:
        seeds[texts(body)].add(body["seed"])
    assert len(seeds["Letters: abc"]) == 2
    assert made[0].text == made[2].text


def test_results_are_by_index_and_concurrency_is_bounded(endpoint: Endpoint, engines: Any) -> None:
    def plan(number: int, body: Body) -> Answer | None:
        if number == 0:
            return None
        index = int(texts(body).split()[-1])
        return Answer(completion(body, f"reply {index}"), seconds=0.06 - 0.004 * index)

    endpoint.plan = plan
    made = generated(engines(concurrency=4), [ask(str(index)) for index in range(12)])
    assert [each.text for each in made] == [f"reply {index}" for index in range(12)]
    assert endpoint.busiest == 4


@pytest.mark.parametrize(
    "trouble",
    [
        Answer(error("slow down"), 429, headers={"Retry-After": "0.01"}),
        Answer(error("overloaded"), 503),
        Answer("<html>bad gateway</html>", 502),
        Answer(hang_up=True),
        Answer(error("late"), 408),
    ],
    ids=["rate limit", "overloaded", "gateway", "connection lost", "timeout status"],
)
def test_passing_trouble_is_retried(trouble: Answer, endpoint: Endpoint, engines: Any) -> None:
    endpoint.plan = lambda number, body: trouble if number == 1 else None
    made = generated(engines(retries=1), [ask("abc"), ask("abc")])
    assert all(isinstance(each, Generation) for each in made)
    assert len(endpoint.bodies) == 4  # the probe, two, and one again


def test_lasting_trouble_faults_its_own_request(endpoint: Endpoint, engines: Any) -> None:
    def plan(number: int, body: Body) -> Answer | None:
        bad = {
            "status": Answer(error("boom"), 500),
            "rate": Answer(error("You exceeded your quota", "insufficient_quota"), 429),
            "late": Answer(completion(body, "late"), seconds=6.0),
            "text": Answer("no json"),
            "empty": Answer({}),
            "none": Answer(completion(body, "a", choices=None)),
            "uncounted": Answer(completion(body, "a", usage=None)),
            "minus": Answer(completion(body, "a", usage={"prompt_tokens": -1})),
            "huge": Answer(
                completion(body, "a", usage={"prompt_tokens": 1, "completion_tokens": 10**12})
            ),
            "error": Answer({"error": {"message": "provider is down", "code": 502}}),
        }
        return bad.get(texts(body).split()[-1]) if number else None

    endpoint.plan = plan
    names = ["status", "rate", "late", "text", "empty", "none", "uncounted", "minus", "huge"]
    asked = [ask(name) for name in (*names, "error", "abc")]
    made = generated(engines(retries=0, timeout=2.0), asked)
    assert isinstance(made[-1], Generation)
    faults = dict(zip([*names, "error"], made, strict=False))
    assert all(isinstance(each, Fault) for each in faults.values())
    assert faults["status"].reason == "the endpoint answers 500: boom"
    assert "429: You exceeded your quota" in faults["rate"].reason
    assert "within 2 s" in faults["late"].reason
    assert "not JSON" in faults["text"].reason
    assert "no usage" in faults["empty"].reason and "no usage" in faults["uncounted"].reason
    assert "no message" in faults["none"].reason
    assert faults["none"].spent.prompt_tokens > 0  # it was counted, so it is paid
    assert "usage.prompt_tokens is -1" in faults["minus"].reason
    assert "usage.completion_tokens" in faults["huge"].reason
    assert "provider is down" in faults["error"].reason


def test_a_server_that_drips_is_given_up(engines: Any, endpoint: Endpoint) -> None:
    """One byte now and then passes every timeout of a single read."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        for _ in range(400):
            if writer.is_closing():
                break
            writer.write(b" ")
            await asyncio.sleep(0.05)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        over.set()

    over = asyncio.Event()

    async def work(monkey: pytest.MonkeyPatch) -> Any:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        engine = engines(base_url=f"http://127.0.0.1:{port}/v1", retries=0, timeout=0.3)
        monkey.setattr("whale_openai.engine.BACKOFF", 0.2)
        try:
            return await engine.generate([ask("abc")])
        finally:
            await engine.close()
            await over.wait()
            server.close()

    with pytest.MonkeyPatch.context() as monkey:
        (made,) = asyncio.run(work(monkey))
    assert isinstance(made, Fault) and "no answer" in made.reason


def test_a_refused_request_is_the_harness_s_fault(endpoint: Endpoint, engines: Any) -> None:
    def plan(number: int, body: Body) -> Answer | None:
        bad = {
            "long": Answer(error("Please reduce the length.", "context_length_exceeded"), 400),
            "vllm": Answer(error("This model's maximum context length is 4096 tokens."), 400),
            "odd": Answer({"detail": [{"msg": "bad tools"}]}, 422),
            "rude": Answer(error("flagged"), 403),
        }
        return bad.get(texts(body).split()[-1])

    endpoint.plan = plan
    asked = [ask(name) for name in ("long", "vllm", "odd", "rude", "abc")]
    made = generated(engines(prices=Prices(input=1.0, output=1.0)), asked)
    assert [each.reason for each in made[:4]] == [
        "context",
        "context",
        'error: the endpoint answers 422: [{"msg": "bad tools"}]',
        "error: the endpoint answers 403: flagged",
    ]
    assert all(isinstance(each, Refusal) for each in made[:4])
    assert isinstance(made[4], Generation)
    # that the endpoint is in order was asked once for all of them, and is charged
    assert len(endpoint.bodies) == 1 + 5 + 1
    assert [each.spent.calls for each in made[:4]] == [1, 0, 0, 0]
    assert made[0].spent.usd > 0


def test_refusals_of_an_endpoint_that_refuses_everything_are_its_own(
    endpoint: Endpoint, engines: Any
) -> None:
    """Some say 400 when a key is revoked: that must not count against harnesses."""
    endpoint.plan = lambda number, body: Answer(error("API key expired"), 400) if number else None
    made = generated(engines(), [ask("abc"), ask("abd")])
    assert all(isinstance(each, Fault) for each in made)
    assert made[0].reason == "the endpoint answers 400: API key expired"


def test_what_no_endpoint_takes_is_never_sent(endpoint: Endpoint, engines: Any) -> None:
    stray = ask("a", messages=(Message("user", "a"), Message("tool", "42")))
    tools = [
        ask("a", tools=bad)
        for bad in ([{"name": "a b"}], ["x"], [{"name": "x", "parameters": 3}], [{"function": {}}])
    ]
    made = generated(engines(), [stray, *tools])
    assert all(isinstance(each, Refusal) for each in made)
    assert "answers no tool call" in made[0].reason and "tools= takes" in made[1].reason
    assert len(endpoint.bodies) == 1


def test_the_probe_refuses_in_one_line(
    endpoint: Endpoint, engines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG_KEY", "sk-wrong-123456")
    lines = {
        "key": refused(engines(api_key_env="WRONG_KEY")),
        "model": refused(engines(model="gpt-none")),
        "path": refused(engines(base_url=endpoint.url.removesuffix("/v1"))),
    }
    assert "401" in lines["key"] and "api_key_env" in lines["key"]
    assert "sk-wrong" not in lines["key"] and "***" in lines["key"]
    assert "gpt-none" in lines["model"] and "404" in lines["model"]
    assert "/v1" in lines["path"]
    endpoint.plan = lambda number, body: Answer(error("'temperature' is not supported"), 400)
    lines["settings"] = refused(engines())
    assert "engine.send" in lines["settings"] and "temperature" in lines["settings"]
    endpoint.plan = lambda number, body: Answer(completion(body, "a", usage=None))
    lines["usage"] = refused(engines())
    assert "no usage" in lines["usage"]
    assert all("\n" not in line for line in lines.values())


def test_the_probe_tells_what_is_out_of_order(endpoint: Endpoint, engines: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(EngineError, match=r"cannot be reached.*base_url"):
        asyncio.run(engines(base_url=url, retries=0).probe(SAMPLING))
    endpoint.plan = lambda number, body: Answer(error("overloaded"), 503)
    with pytest.raises(EngineError, match="503: overloaded"):
        asyncio.run(engines(retries=0).probe(SAMPLING))


def test_a_model_that_reasons_first_is_probed_with_more_tokens(
    endpoint: Endpoint, engines: Any
) -> None:
    def plan(number: int, body: Body) -> Answer | None:
        short = body["max_tokens"] < 100
        return Answer(error("model output limit was reached"), 400) if short else None

    endpoint.plan = plan
    spent = asyncio.run(engines().probe(SAMPLING))
    assert [body["max_tokens"] for body in endpoint.bodies] == [1, 1024]
    assert (spent.calls, spent.prompt_tokens) == (1, endpoint.usages[0]["prompt_tokens"])


def test_the_probe_costs_one_call_and_names_what_is_served(
    endpoint: Endpoint, engines: Any
) -> None:
    engine = engines(prices=Prices(input=1.0, output=1.0))
    with pytest.raises(EngineError, match="probe"):
        asyncio.run(engine.weights_id())
    spent = asyncio.run(engine.probe(SAMPLING))
    assert spent.calls == 1 and spent.usd == pytest.approx(endpoint.usd((1, 1, 1)))
    assert engine.facts()["served_model"] == SERVED
    first = asyncio.run(engine.weights_id())
    assert first == asyncio.run(engine.load(None))
    with pytest.raises(InputError, match="weights"):
        asyncio.run(engine.load(Path("x")))
    # the fingerprint changes with every answer and is no part of it; another model is
    asyncio.run(engine.probe(SAMPLING))
    assert asyncio.run(engine.weights_id()) == first
    endpoint.plan = lambda number, body: Answer(completion(body, "a", model="other"))
    (made,) = generated(engine, [ask("abc")])
    assert made.weights_id == asyncio.run(engine.weights_id()) != first


def test_an_alias_that_comes_to_mean_another_model_is_told(
    endpoint: Endpoint, engines: Any
) -> None:
    endpoint.plan = lambda number, body: (
        Answer(completion(body, "a", model="other")) if number else None
    )
    engine = engines()
    (made,) = generated(engine, [ask("abc")])
    assert made.weights_id != asyncio.run(engine.weights_id())


def test_a_key_is_never_shown(
    endpoint: Endpoint, engines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines()
    endpoint.plan = lambda number, body: Answer(
        error(f"no such key: {KEY}"), 401 if number else 400
    )
    made = asyncio.run(_closing(engine, engine.generate([ask("abc")])))
    assert KEY not in made[0].reason
    for value in ("", "  ", "two words", "umlaut-ü", "tab\there"):
        monkeypatch.setenv("ODD_KEY", value)
        with pytest.raises(InputError) as caught:
            engines(api_key_env="ODD_KEY")
        assert "ODD_KEY" in str(caught.value) and "two" not in str(caught.value)
    for url in (f"http://{KEY}@host/v1", f"http://host/v1?key={KEY}", "host/v1", "ftp://host"):
        with pytest.raises(ValueError) as wrong:
            Config(base_url=url, model="m")
        assert KEY not in str(wrong.value)
    with pytest.raises(ValueError, match="cannot set n, seed"):
        Config(model="m", extra={"n": 4, "seed": 1})


async def _closing(engine: OpenAIEngine, work: Awaitable[Any]) -> Any:
    try:
        return await work
    finally:
        await engine.close()


def test_an_endpoint_without_a_key(endpoint: Endpoint, engines: Any) -> None:
    endpoint.plan = lambda number, body: Answer(completion(body, "a"))
    (made,) = generated(engines(api_key_env=""), [ask("abc")])
    assert isinstance(made, Generation)
    with pytest.raises(InputError, match=r"engine\.model"):
        engines(model="")


def test_the_core_asks_with_messages_and_counts_what_is_told(
    endpoint: Endpoint, engines: Any
) -> None:
    engine = engines(max_context=40, prices=Prices(input=1.0, output=1.0))
    short, long = Message("user", "Letters: abc"), Message("user", "word " * 30)
    turns = [turn((short,)), turn((short,), max_tokens=5), turn((long,))]
    calls = run(engine, lambda: EnginePolicy(engine, SAMPLING).reply(turns))
    assert sorted(body["max_tokens"] for body in endpoint.bodies[1:]) == [1, 5, 36]
    told = sorted((u["prompt_tokens"], u["completion_tokens"]) for u in endpoint.usages[1:])
    assert sorted((len(call.prompt_ids), len(call.token_ids)) for call in calls) == told
    assert calls[2].prompt_ids.size == words(long.content)
    assert sum(call.usd for call in calls) == pytest.approx(
        endpoint.usd((1, 1, 1))
        - 1e-6 * sum(endpoint.usages[0][f"{n}_tokens"] for n in ("prompt", "completion"))
    )
