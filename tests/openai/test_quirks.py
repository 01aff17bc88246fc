"""What single providers want otherwise, and the setting or the reading that meets it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from chat_server_kit import Answer, Body, Endpoint, completion, error
from endpoint_kit import ask, generated, refused

from whale_core.chat_completions import Prices
from whale_core.records import Fault, Generation
from whale_openai import pace

Wants = Callable[[Body], str | None]  # what a provider says to a request; None: it answers


def no_field(name: str, said: str) -> Wants:
    return lambda body: said if name in body else None


def only_temperature_1(body: Body) -> str | None:
    fine = body.get("temperature", 1) == 1
    return None if fine else "'temperature' does not support 0.7 with this model, only 1"


@pytest.mark.parametrize(
    ("wants", "settings"),
    [
        (
            no_field("max_tokens", "Unsupported parameter: 'max_tokens', use another"),
            {"limit_field": "max_completion_tokens"},
        ),
        (no_field("max_completion_tokens", "unknown field max_completion_tokens"), {}),
        (no_field("seed", "Unsupported parameter: 'seed'"), {"send": ("temperature", "top_p")}),
        (only_temperature_1, {"send": ("seed",)}),
        (no_field("top_p", "'top_p' is deprecated"), {"send": ("temperature",)}),
        (no_field("logprobs", "'logprobs' is not supported by this model"), {"logprobs": False}),
        (
            lambda body: None if body.get("reasoning_effort") else "reasoning_effort is required",
            {"extra": {"reasoning_effort": "low"}},
        ),
    ],
    ids=["completion tokens", "tokens", "seed", "temperature", "top_p", "logprobs", "more fields"],
)
def test_a_field_that_a_provider_refuses_is_named_and_a_setting_leaves_it_out(
    wants: Wants, settings: dict[str, Any], endpoint: Endpoint, engines: Any
) -> None:
    def plan(number: int, body: Body) -> Answer:
        said = wants(body)
        return Answer(error(said), 400) if said else Answer(completion(body, "fine"))

    endpoint.plan = plan
    others = {"limit_field": "max_completion_tokens"} if not settings else {}
    line = refused(engines(logprobs=True, **others))
    changed = settings or {"limit_field": "max_tokens"}
    assert all(f"engine.{name}" in line for name in changed)
    assert "400: " in line and "\n" not in line
    (made,) = generated(engines(**settings), [ask("abc")])
    assert isinstance(made, Generation) and made.text == "fine"


@pytest.mark.parametrize(
    "told",
    [
        {"prompt_tokens_details": {"cached_tokens": 3}},
        {"cached_tokens": 3},
        {"prompt_cache_hit_tokens": 3, "prompt_cache_miss_tokens": 1},
        {"prompt_tokens_details": None, "prompt_cache_hit_tokens": 3},
        {"prompt_tokens_details": {"cached_tokens": None}, "cached_tokens": 3},
    ],
)
def test_cached_tokens_have_their_price_whatever_they_are_called(
    told: dict[str, Any], endpoint: Endpoint, engines: Any
) -> None:
    usage = {"prompt_tokens": 4, "completion_tokens": 1, **told}
    endpoint.plan = lambda number, body: Answer(completion(body, "a", usage=usage))
    (made,) = generated(engines(prices=Prices(input=2.0, cached=0.5, output=8.0)), [ask("abc")])
    assert made.cached_tokens == 3
    assert made.usd == pytest.approx((1 * 2.0 + 3 * 0.5 + 1 * 8.0) / 1e6)


@pytest.mark.parametrize(
    "odd", [{"cached_tokens": 9}, {"cached_tokens": -1}, {"cached_tokens": "3"}]
)
def test_a_count_of_cached_tokens_that_cannot_be_is_none(
    odd: dict[str, Any], endpoint: Endpoint, engines: Any
) -> None:
    usage = {"prompt_tokens": 4, "completion_tokens": 1, **odd}
    endpoint.plan = lambda number, body: Answer(completion(body, "a", usage=usage))
    (made,) = generated(engines(), [ask("abc")])
    assert made.cached_tokens == 0


@pytest.mark.parametrize("said", ["eos", "eos_token", "stop_sequence"])
def test_other_names_for_an_end(said: str, endpoint: Endpoint, engines: Any) -> None:
    def plan(number: int, body: Body) -> Answer:
        made = completion(body, "a")
        made["choices"][0]["finish_reason"] = said
        return Answer(made)

    endpoint.plan = plan
    (made,) = generated(engines(), [ask("abc")])
    assert made.finish_reason == "end"


def test_requests_are_spaced_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits = [50.0], []

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 6))

    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(pace, "asyncio", SimpleNamespace(sleep=sleep))
    paced = pace.Pace(600)

    async def begin(count: int) -> None:
        for _ in range(count):
            await paced.wait()

    asyncio.run(begin(3))
    now[0] = 50.25  # one more would begin at 50.3
    asyncio.run(begin(2))
    now[0] = 90.0  # what was not used is not saved up
    asyncio.run(begin(2))
    assert waits == [0.0, 0.1, 0.2, 0.05, 0.15, 0.0, 0.1]
    assert paced.longest(32) == pytest.approx(3.2) and pace.Pace(0).client() is None


def test_every_try_of_a_request_waits_for_its_turn(
    endpoint: Endpoint, engines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider counts further tries, too, and the probe."""
    waited: list[Any] = []

    async def wait(self: pace.Pace, request: Any = None) -> None:
        waited.append(request)

    monkeypatch.setattr(pace.Pace, "wait", wait)
    busy = Answer(error("slow down"), 429, headers={"Retry-After": "0.001"})
    endpoint.plan = lambda number, body: busy if number == 2 else None
    made = generated(engines(requests_per_minute=600), [ask("abc", draw) for draw in range(4)])
    assert all(isinstance(each, Generation) for each in made)
    assert len(waited) == len(endpoint.bodies) == 1 + 4 + 1


def test_a_wait_that_is_too_long_is_told_at_once(endpoint: Endpoint, engines: Any) -> None:
    """Some answer 429 with the time at which a day's quota comes back."""
    later = Answer(error("quota of today used up"), 429, headers={"Retry-After": "30000"})
    endpoint.plan = lambda number, body: later if number else None
    (made,) = generated(engines(), [ask("abc")])
    assert isinstance(made, Fault) and "429: quota of today" in made.reason
    assert len(endpoint.bodies) == 2


def test_the_tries_of_a_request_are_counted(endpoint: Endpoint, engines: Any) -> None:
    busy = Answer(error("slow down"), 429, headers={"Retry-After": "0.01"})
    endpoint.plan = lambda number, body: busy if number else None
    (made,) = generated(engines(retries=3), [ask("abc")])
    assert isinstance(made, Fault) and len(endpoint.bodies) == 1 + 1 + 3
