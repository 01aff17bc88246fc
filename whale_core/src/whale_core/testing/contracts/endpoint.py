"""Contract of a rollout engine that takes messages: it says who it is, and counts all it costs."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np

from whale_core.abilities import TakesMessages
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.records import (
    UNKNOWN_TOKEN,
    Generation,
    GenerationRequest,
    Message,
    Sampling,
)
from whale_core.roles import RolloutEngine
from whale_core.rollout.faults import problem_of, prompt_of
from whale_core.testing.contracts.requirement import (
    Factory,
    build,
    doing,
    require,
    require_json,
)

TEXTS = ("Say one letter.", "Ünïcödé, 漢字 and \N{SNOWMAN}\n\ttoo", "x " * 60)
MAX_TOKENS = 12


def check_endpoint(factory: Factory, config: Any) -> None:
    """Check a rollout engine that ``TakesMessages``, against an endpoint that answers.

    It is probed, says what it serves and whether it trains and knows prices; each request has one
    answer, in order, with the tokens that the endpoint counted for prompt and reply (and their ids,
    if it trains), and their price.
    """
    engine: Any = build(factory, config, Setup(seed=0))
    require(
        isinstance(engine, TakesMessages), "it lacks members of TakesMessages: see abilities.py"
    )
    with doing("probe()"):
        spent = asyncio.run(engine.probe(Sampling()))
    require(spent.calls >= 1, "probe() costs no call: was the endpoint asked?")
    asyncio.run(_check(engine))


async def _check(engine: RolloutEngine) -> None:
    assert isinstance(engine, TakesMessages)
    try:
        with doing("facts()"):
            facts = engine.facts()
        require_json(facts, "facts()")
        require(isinstance(engine.trains, bool), "trains must be True or False")
        taking = isinstance(engine.takes_weights, bool)
        require(taking, "takes_weights must be True or False")
        require(isinstance(engine.priced, bool), "priced must be True or False")
        served = await engine.weights_id()
        require(bool(served) and served == await engine.weights_id(), "weights_id() is not stable")
        for text in TEXTS:
            ids = engine.tokenizer.encode(text, special=False)
            require(engine.tokenizer.decode(ids) == text, "decode(encode(text)) makes another text")
        requests = [_request(text, stream) for stream, text in enumerate(TEXTS)]
        with doing(f"generate() of {len(requests)} requests"):
            made = await engine.generate(requests)
        require(len(made) == len(requests), f"{len(made)} answers for {len(requests)} requests")
        lengths = []
        for request, each in zip(requests, made, strict=True):
            require(isinstance(each, Generation), f"a sound request was answered with {each!r}")
            assert isinstance(each, Generation)
            problem = problem_of(each, request, engine.vocabulary)
            require(problem is None, f"a generation cannot be right: {problem}")
            require(each.weights_id == served, "a generation names other weights than weights_id()")
            known = UNKNOWN_TOKEN not in (*prompt_of(each, request), *each.token_ids)
            require(known or not engine.trains, "it trains, but a generation lacks token ids")
            sound = math.isfinite(each.usd) and each.usd >= 0
            require(sound, f"a generation costs {each.usd} USD")
            lengths.append(len(prompt_of(each, request)))
        require(lengths[2] > lengths[0], "a long prompt is counted as no longer than a short one")
        require(list(await engine.generate([])) == [], "generate([]) is not []")
    finally:
        with doing("close() twice"):
            await engine.close()
            await engine.close()


def _request(text: str, stream: int) -> GenerationRequest:
    key = content_hash("contract", str(stream), length=16).encode()
    return GenerationRequest(
        prompt_ids=np.empty(0, np.int32),
        max_tokens=MAX_TOKENS,
        stop=(),
        sampling=Sampling(),
        stream=key,
        messages=(Message("system", "Be brief."), Message("user", text)),
    )
