"""What answers a harness's model calls: the engine's policy, or a null model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from attrs import frozen

from whale_core.keys import DrawKey, stream_generator
from whale_core.records import Call, GenerationRequest, Ids, Json, Message, Sampling
from whale_core.roles import NullModel, RolloutEngine, Tokenizer
from whale_core.rollout.chat import RenderError, TokenBridge


@frozen
class Turn:
    """One model call a harness waits for. ``budget`` is what is left of the episode's tokens."""

    view: Mapping[str, Json]
    messages: tuple[Message, ...]
    tools: Json | None
    max_tokens: int | None
    stop: tuple[str, ...]
    budget: int
    key: DrawKey
    calls: tuple[Call, ...]


@frozen
class Refusal:
    """Why a turn cannot be answered through the harness's own fault; the episode fails with it."""

    reason: str


class Policy(Protocol):
    """Answers a round of turns, in order."""

    async def weights_id(self) -> str:
        """Return the content hash of what answers."""
        ...

    async def forget(self) -> None:
        """Drop what was cached for earlier rollouts."""
        ...

    async def reply(self, turns: Sequence[Turn]) -> list[Call | Refusal]:
        """Return one call (or refusal) per turn. Raise ``EngineError`` on an engine fault."""
        ...


class EnginePolicy:
    """The policy that a rollout engine serves."""

    def __init__(self, engine: RolloutEngine, sampling: Sampling) -> None:
        self._engine = engine
        self._sampling = sampling
        self._bridge = TokenBridge(engine.tokenizer)

    async def weights_id(self) -> str:
        """Return what the engine says it serves."""
        return await self._engine.weights_id()

    async def forget(self) -> None:
        """Have the engine drop its cached prompts."""
        await self._engine.forget()

    async def reply(self, turns: Sequence[Turn]) -> list[Call | Refusal]:
        """Render every turn and have the engine continue those that fit its context."""
        replies: list[Call | Refusal | None] = []
        requests: list[GenerationRequest] = []
        for turn in turns:
            request = self._request(turn)
            if isinstance(request, Refusal):
                replies.append(request)
            else:
                replies.append(None)
                requests.append(request)
        generations = await self._engine.generate(requests) if requests else []
        answered = iter(zip(requests, generations, strict=True))
        for index, turn in enumerate(turns):
            if replies[index] is None:
                request, made = next(answered)
                replies[index] = Call(
                    prompt_ids=request.prompt_ids,
                    token_ids=made.token_ids,
                    logprobs=made.logprobs,
                    text=made.text,
                    finish_reason=made.finish_reason,
                    weights_id=made.weights_id,
                    messages=turn.messages,
                    cached_tokens=made.cached_tokens,
                )
        return [reply for reply in replies if reply is not None]

    def _request(self, turn: Turn) -> GenerationRequest | Refusal:
        try:
            prompt: Ids = self._bridge.render(turn.messages, turn.calls, turn.tools)
        except RenderError as error:
            return Refusal(f"error: {str(error)[:200]}")
        room = self._engine.max_context - len(prompt)
        if room < 1:
            return Refusal("context")
        wanted = turn.budget if turn.max_tokens is None else min(turn.max_tokens, turn.budget)
        return GenerationRequest(
            prompt_ids=prompt,
            max_tokens=min(wanted, room),
            stop=turn.stop,
            sampling=self._sampling,
            stream=turn.key.stream(len(turn.calls)),
        )


class NullPolicy:
    """A domain's null model in the policy's place: it knows nothing and costs nothing.

    Its replies pass the same limits as sampled ones (tokens, stop strings), so a harness cannot
    tell from a reply's length or finish reason that it is being gated.
    """

    def __init__(self, null: NullModel, tokenizer: Tokenizer) -> None:
        self._null = null
        self._tokenizer = tokenizer

    async def weights_id(self) -> str:
        """Return a name no weights can have."""
        return f"null:{self._null.name}"

    async def forget(self) -> None:
        """Nothing is cached."""

    async def reply(self, turns: Sequence[Turn]) -> list[Call | Refusal]:
        """Make up one reply per turn, each from its own random stream."""
        return [self._reply(turn) for turn in turns]

    def _reply(self, turn: Turn) -> Call:
        rng = stream_generator(turn.key.stream(len(turn.calls)))
        text = self._null.reply(turn.view, turn.messages, rng)
        reason = "end"
        ends = [text.index(stop) + len(stop) for stop in turn.stop if stop in text]
        if ends:
            text, reason = text[: min(ends)], "stop"
        ids = self._tokenizer.encode(text, special=False)
        limit = turn.budget if turn.max_tokens is None else min(turn.max_tokens, turn.budget)
        if len(ids) > limit:
            ids, reason = ids[:limit], "length"
            text = self._tokenizer.decode(ids)
        return Call(
            prompt_ids=np.empty(0, np.int32),
            token_ids=np.array(ids, np.int32),
            logprobs=np.zeros(len(ids), np.float32),
            text=text,
            finish_reason=reason,
            weights_id=f"null:{self._null.name}",
            messages=turn.messages,
        )
