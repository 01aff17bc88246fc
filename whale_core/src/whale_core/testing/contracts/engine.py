"""Contract of a rollout engine: what it samples depends on the request and the weights alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from whale_core.abilities import LendsModule
from whale_core.errors import EngineError
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.records import Generation, GenerationRequest, Sampling
from whale_core.roles import RolloutEngine
from whale_core.rollout.faults import problem_of
from whale_core.testing.contracts.requirement import (
    Factory,
    build,
    doing,
    require,
    require_json,
)

T = TypeVar("T")

TEXTS = (
    "Say one letter.",
    "Letters: qwerty. Which of them is a vowel? Answer with that letter alone.",
    "Ünïcödé, 漢字 and \N{SNOWMAN}\n\ttoo",
    "Say one letter.",
    "x " * 60,
)
MAX_TOKENS = 12
NEAR = 1e-3  # log-probabilities of one token in different company


def check_engine(factory: Factory, config: Any) -> None:
    """Check a rollout engine with a small model.

    A request gives the same tokens alone, in company and in any order, under its own random stream;
    limits and stop strings hold; the weights id names the weights, also after saving and loading;
    an engine that lends its module takes notice of a change to it.
    """
    asyncio.run(_check(build(factory, config, Setup(seed=0))))


async def _check(engine: RolloutEngine) -> None:
    try:
        with doing("facts()"):
            facts = engine.facts()
        require_json(facts, "facts()")
        _check_tokenizer(engine)
        requests = [_request(engine, text, stream) for stream, text in enumerate(TEXTS)]
        first = await _generate(engine, requests)
        await _check_company(engine, requests, first)
        await _check_limits(engine)
        await _check_weights(engine, requests, first)
        if isinstance(engine, LendsModule):
            await _check_lending(engine, requests, first)
    finally:
        await _ask(engine.close(), "close()")
        await _ask(engine.close(), "close() for a second time")


def _check_tokenizer(engine: RolloutEngine) -> None:
    tokenizer = engine.tokenizer
    require(bool(tokenizer.end_tokens), "tokenizer.end_tokens is empty: no turn could ever end")
    for text in TEXTS:
        with doing(f"the tokenizer with {text[:20]!r}"):
            back = tokenizer.decode(tokenizer.encode(text, special=False))
        require(back == text, f"decode(encode(text)) makes {back[:40]!r} of {text[:40]!r}")
    turn = tokenizer.template([{"role": "user", "content": "Hello"}])
    require("Hello" in turn, "the chat template leaves the message out")
    ids = tokenizer.encode(turn, special=True)
    split = tokenizer.encode(turn, special=False)
    require(
        not set(split) & tokenizer.end_tokens,
        "encode(…, special=False) makes special tokens: what a user writes could end a turn",
    )
    require(bool(ids), "encode() of a rendered conversation is empty")


async def _check_company(
    engine: RolloutEngine, requests: Sequence[GenerationRequest], first: Sequence[Generation]
) -> None:
    alone = [(await _generate(engine, [request]))[0] for request in requests]
    _require_equal(first, alone, "alone and in company")
    backwards = await _generate(engine, requests[::-1])
    _require_equal(first, backwards[::-1], "in another order")
    await _ask(engine.forget(), "forget()")
    _require_equal(first, await _generate(engine, requests), "after forget()")
    require(await _generate(engine, []) == [], "generate([]) is not []")
    streams = await _generate(engine, [_request(engine, TEXTS[1], 100 + n) for n in range(16)])
    require(
        len({tuple(each.token_ids.tolist()) for each in streams}) > 1,
        "16 random streams give the same tokens: request.stream is not used",
    )


async def _check_limits(engine: RolloutEngine) -> None:
    """One token, a stop string, and a prompt that does not fit."""
    (one,) = await _generate(engine, [_request(engine, TEXTS[0], 0, max_tokens=1)])
    require(len(one.token_ids) == 1, "max_tokens=1 gives more than one token")
    several = await _generate(engine, [_request(engine, TEXTS[0], 200 + n) for n in range(8)])
    texts = [each.text for each in several if len(each.text.strip()) > 2]
    for stream, made in enumerate(several):
        if made.text not in texts:
            continue
        stop = made.text[1:2]
        request = _request(engine, TEXTS[0], 200 + stream, stop=(stop,))
        (stopped,) = await _generate(engine, [request])
        require(
            stopped.finish_reason == "stop" and stop in stopped.text,
            f"the reply goes on after the stop string {stop!r}, or its text lacks it",
        )
        require(
            made.token_ids.tolist()[: len(stopped.token_ids)] == stopped.token_ids.tolist(),
            "a stop string changes the tokens before it",
        )
        break
    room = engine.max_context
    long = engine.tokenizer.encode("a " * (room + 8), special=False)
    request = GenerationRequest(
        np.array(long, np.int32), MAX_TOKENS, (), Sampling(), content_hash("s").encode()[:16]
    )
    try:
        await engine.generate([request])
    except EngineError:
        return
    except Exception as error:
        raise AssertionError(
            f"a prompt of {len(long)} tokens raised {type(error).__name__}, not EngineError"
        ) from error
    require(False, f"a prompt of {len(long)} tokens is taken, where max_context is {room}")


async def _check_weights(
    engine: RolloutEngine, requests: Sequence[GenerationRequest], first: Sequence[Generation]
) -> None:
    served = await _ask(engine.weights_id(), "weights_id()")
    with TemporaryDirectory() as name:
        saved = await _ask(engine.save(Path(name) / "saved"), "save(folder)")
        require(saved == served, "save() returns another id than weights_id()")
        loaded = await _ask(engine.load(Path(name) / "saved"), "load(the folder just saved)")
        require(loaded == served, "loading what was saved gives other weights")
        require(await engine.weights_id() == loaded, "weights_id() is not what load() returned")
        _require_equal(first, await _generate(engine, requests), "after loading the same weights")
    initial = await _ask(engine.load(None), "load(None)")
    require(initial == served, "load(None) does not serve the initial weights")


async def _check_lending(
    engine: Any, requests: Sequence[GenerationRequest], first: Sequence[Generation]
) -> None:
    """A trainer changes the module in place: the id follows, and the files hold the change."""
    before = await engine.weights_id()

    def change(module: Any) -> str:
        for parameter in module.parameters():
            parameter.data.mul_(-1.5)
        return "done"

    def fail(module: Any) -> None:
        raise LookupError("on purpose")

    said = await _ask(engine.borrow(change), "borrow(work)")
    require(said == "done", "borrow() does not return what the work returned")
    try:
        await engine.borrow(fail)
    except LookupError:
        pass
    else:
        require(False, "borrow() swallows the work's exception")
    after = await _ask(engine.refresh(), "refresh()")
    require(after != before, "refresh() returns the old id although the parameters changed")
    changed = await _generate(engine, requests)
    require(
        [each.token_ids.tolist() for each in changed] != [e.token_ids.tolist() for e in first],
        "after a change of all parameters the same tokens are sampled: is a copy served?",
    )
    with TemporaryDirectory() as name:
        await _ask(engine.save(Path(name) / "changed"), "save(folder)")
        require(await engine.load(None) == before, "load(None) keeps a trainer's change")
        _require_equal(first, await _generate(engine, requests), "after load(None)")
        again = await _ask(engine.load(Path(name) / "changed"), "load(folder)")
        require(again == after, "a trainer's change is lost by saving and loading")
        _require_equal(changed, await _generate(engine, requests), "after saving and loading")
        await engine.load(None)


def _request(
    engine: RolloutEngine,
    text: str,
    stream: int,
    max_tokens: int = MAX_TOKENS,
    stop: tuple[str, ...] = (),
) -> GenerationRequest:
    turn = engine.tokenizer.template([{"role": "user", "content": text}])
    ids = engine.tokenizer.encode(turn, special=True)
    key = content_hash("contract", str(stream), length=16).encode()
    return GenerationRequest(np.array(ids, np.int32), max_tokens, stop, Sampling(), key)


async def _generate(
    engine: RolloutEngine, requests: Sequence[GenerationRequest]
) -> list[Generation]:
    """Return generations that can be right, one per request, of the weights that are served."""
    made = await _ask(engine.generate(requests), f"generate() of {len(requests)} requests")
    require(len(made) == len(requests), f"{len(made)} generations for {len(requests)} requests")
    served = await engine.weights_id()
    sound: list[Generation] = []
    for request, each in zip(requests, made, strict=True):
        problem = problem_of(each, request, engine.vocabulary)
        require(problem is None, f"a generation cannot be right: {problem}")
        assert isinstance(each, Generation)  # problem_of would have said so
        require(each.weights_id == served, "a generation names other weights than weights_id()")
        ends = engine.tokenizer.end_tokens
        ids = each.token_ids.tolist()
        inside = ids[:-1] if each.finish_reason == "end" else ids
        require(not set(inside) & ends, "a generation goes on after an end token")
        require(each.text == engine.tokenizer.decode(inside), "text is not the decoded tokens")
        sound.append(each)
    return sound


def _require_equal(first: Sequence[Generation], other: Sequence[Generation], when: str) -> None:
    for one, two in zip(first, other, strict=True):
        require(
            one.token_ids.tolist() == two.token_ids.tolist(), f"a request gives other tokens {when}"
        )
        require(
            bool(np.allclose(one.logprobs, two.logprobs, atol=NEAR)),
            f"a request gives other log-probabilities {when}",
        )


async def _ask(answer: Awaitable[T], what: str) -> T:
    with doing(what):
        return await answer
