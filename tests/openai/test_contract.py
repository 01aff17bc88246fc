"""The engine keeps the contract of engines that take messages; broken ones are found out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from chat_server_kit import MODEL, Endpoint

from whale_core.chat_completions import Prices
from whale_core.records import Generation, GenerationRequest
from whale_core.testing.contracts import check_endpoint
from whale_openai.config import Config
from whale_openai.engine import OpenAIEngine


@pytest.fixture
def config(endpoint: Endpoint, key: str) -> Config:
    prices = Prices(input=1.0, output=2.0)
    return Config(base_url=endpoint.url, model=MODEL, api_key_env="TOY_KEY", prices=prices)


def test_the_engine(config: Config) -> None:
    check_endpoint(OpenAIEngine, config)


class Backwards(OpenAIEngine):
    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Any]:
        return (await super().generate(requests))[::-1]


class Uncounted(OpenAIEngine):
    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Any]:
        made = await super().generate(requests)
        return [evolve(g, prompt_ids=None) if isinstance(g, Generation) else g for g in made]


class Refunding(OpenAIEngine):
    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Any]:
        made = await super().generate(requests)
        return [evolve(g, usd=-1.0) if isinstance(g, Generation) else g for g in made]


@pytest.mark.parametrize(
    ("broken", "said"),
    [(Backwards, "no longer than"), (Uncounted, "cannot be right"), (Refunding, "costs -1.0 USD")],
)
def test_broken_engines(config: Config, broken: type[OpenAIEngine], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_endpoint(broken, config)
