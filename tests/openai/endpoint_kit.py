"""Requests, and engines that are probed, asked and closed as a run does it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest
from chat_server_kit import Body

from whale_core.errors import InputError
from whale_core.keys import DrawKey
from whale_core.records import GenerationRequest, Message, Sampling
from whale_core.rollout.policy import Turn
from whale_openai.engine import OpenAIEngine

SAMPLING = Sampling(temperature=0.7, top_k=12, top_p=0.9)


def ask(text: str, draw: int = 0, **more: Any) -> GenerationRequest:
    usual: dict[str, Any] = {
        "prompt_ids": np.empty(0, np.int32),
        "max_tokens": 8,
        "stop": (),
        "sampling": SAMPLING,
        "stream": DrawKey(0, "score", 1, 1, text, draw).stream(0),
        "messages": (Message("system", "Say one."), Message("user", f"Letters: {text}")),
    }
    return GenerationRequest(**{**usual, **more})


def run(engine: OpenAIEngine, work: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        try:
            return await work()
        finally:
            await engine.close()

    asyncio.run(engine.probe(SAMPLING))  # in a loop of its own, as a run does
    return asyncio.run(whole())


def generated(engine: OpenAIEngine, requests: Sequence[GenerationRequest]) -> list[Any]:
    made: list[Any] = run(engine, lambda: engine.generate(requests))
    return made


def texts(body: Body) -> str:
    return str(body["messages"][-1]["content"])


def refused(engine: OpenAIEngine) -> str:
    with pytest.raises(InputError) as caught:
        asyncio.run(engine.probe(SAMPLING))
    return str(caught.value)


def turn(messages: tuple[Message, ...], **more: Any) -> Turn:
    usual: dict[str, Any] = {
        "view": {},
        "messages": messages,
        "tools": None,
        "max_tokens": None,
        "stop": (),
        "budget": 64,
        "key": DrawKey(0, "score", 1, 1, "x", 0),
        "calls": (),
    }
    return Turn(**{**usual, **more})
