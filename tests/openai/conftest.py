"""A server for each test, the key in the environment, and engines that talk to the server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chat_server_kit import KEY, MODEL, Endpoint

sys.path.insert(0, str(Path(__file__).parent))  # for endpoint_kit

from whale_core.plugins import Setup
from whale_openai.config import Config
from whale_openai.engine import OpenAIEngine

Engines = Callable[..., OpenAIEngine]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    yield server
    server.close()


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The server's key, in the environment variable ``TOY_KEY`` and nowhere else."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("TOY_KEY", KEY)
    return KEY


@pytest.fixture
def engines(endpoint: Endpoint, key: str) -> Engines:
    def make(**settings: object) -> OpenAIEngine:
        usual = {"base_url": endpoint.url, "model": MODEL, "api_key_env": "TOY_KEY"}
        return OpenAIEngine(Config(**{**usual, **settings}), Setup(0))  # type: ignore[arg-type]

    return make
