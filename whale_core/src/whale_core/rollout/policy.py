"""What answers a harness's model calls: the engine's policy, or a null model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from attrs import evolve, frozen

from whale_core.abilities import TakesMessages
from whale_core.errors import EngineError
from whale_core.keys import DrawKey, stream_generator
from whale_core.records import (
    Call,
    Fault,
    Generation,
    GenerationRequest,
    Json,
    Message,
    Refusal,
    Sampling,
    Spent,
)
from whale_core.roles import NullModel, RolloutEngine, Tokenizer
from whale_core.rollout.chat import RenderError, TokenBridge
from whale_core.rollout.faults import cached_of, problem_of, prompt_of, reason_of

REPLY_SECONDS = 3600.0  # a backstop: no batch takes so long


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


Reply = Call | Refusal | Fault


class Policy(Protocol):
    """Answers a round of turns, in order."""

    async def weights_id(self) -> str:
        """Return the content hash of what answers. Raise ``EngineError`` if it cannot say."""
        ...

    async def forget(self) -> None:
        """Drop what was cached for earlier rollouts. Raise ``EngineError`` if that fails."""
        ...

    async def reply(self, turns: Sequence[Turn]) -> list[Reply]:
        """Return one call, refusal or fault per turn. Nothing that an engine does raises here."""
        ...


class EnginePolicy:
    """The policy that a rollout engine serves. Whatever the engine returns is checked here."""

    def __init__(
        self,
        engine: RolloutEngine,
        sampling: Sampling,
        deadline: float = REPLY_SECONDS,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Wait at most ``deadline`` seconds for each answer of the engine. ``tokenizer`` renders
        the messages; None: the engine's own."""
        self._engine = engine
        self._sampling = sampling
        self._deadline = deadline
        self._by_messages = isinstance(engine, TakesMessages)
        self._bridge = TokenBridge(tokenizer or engine.tokenizer)

    async def weights_id(self) -> str:
        """Return what the engine says it serves.

        Raises:
            EngineError: it does not say, or not in time.
        """
        try:
            async with asyncio.timeout(self._deadline) as waiting:
                return await self._engine.weights_id()
        except Exception as error:
            raise EngineError(self._reason(error, waiting)) from error

    async def forget(self) -> None:
        """Have the engine drop its cached prompts.

        Raises:
            EngineError: it fails, or not in time.
        """
        try:
            async with asyncio.timeout(self._deadline) as waiting:
                await self._engine.forget()
        except Exception as error:
            raise EngineError(self._reason(error, waiting)) from error

    async def reply(self, turns: Sequence[Turn]) -> list[Reply]:
        """Render every turn and have the engine continue those that fit its context.

        An engine that takes messages gets them as they are. A generation that cannot be right is
        its turn's fault alone; an engine that fails, answers too late, or with another number of
        generations, is the fault of all turns it was asked for.
        """
        asked = [self._request(turn) for turn in turns]
        requests = [request for request in asked if isinstance(request, GenerationRequest)]
        answers = iter(await self._answers(requests))
        return [
            request if isinstance(request, Refusal) else _call(turn, request, next(answers))
            for turn, request in zip(turns, asked, strict=True)
        ]

    async def _answers(
        self, requests: Sequence[GenerationRequest]
    ) -> list[Generation | Refusal | Fault]:
        """Return a sound generation, or why there is none, for each request."""
        if not requests:
            return []
        try:
            async with asyncio.timeout(self._deadline) as waiting:
                made = list(await self._engine.generate(requests))
        except Exception as error:
            return [Fault(self._reason(error, waiting))] * len(requests)
        if len(made) != len(requests):
            fault = Fault(f"engine: {len(made)} generations for {len(requests)} requests")
            return [fault] * len(requests)
        return [
            self._checked(answer, request) for answer, request in zip(made, requests, strict=True)
        ]

    def _checked(
        self, answer: Generation | Refusal | Fault, request: GenerationRequest
    ) -> Generation | Refusal | Fault:
        """Return the answer, or the fault of one that cannot be right."""
        if isinstance(answer, Refusal):
            return answer
        if isinstance(answer, Fault):
            return evolve(answer, reason=f"engine: {answer.reason}")
        problem = problem_of(answer, request, self._engine.vocabulary)
        if problem is None:
            return answer
        return Fault(f"engine: {problem}", _spent(request, answer))

    def _reason(self, error: Exception, waiting: asyncio.Timeout) -> str:
        if waiting.expired():
            return f"engine: no reply within {self._deadline:g} s (rollout.reply_seconds)"
        return reason_of("engine", error)

    def _request(self, turn: Turn) -> GenerationRequest | Refusal:
        wanted = turn.budget if turn.max_tokens is None else min(turn.max_tokens, turn.budget)
        request = GenerationRequest(
            prompt_ids=np.empty(0, np.int32),
            max_tokens=wanted,
            stop=turn.stop,
            sampling=self._sampling,
            stream=turn.key.stream(len(turn.calls)),
        )
        if self._by_messages:
            # An estimate: it only shortens the reply. Whether the prompt fits, the endpoint says.
            room = self._engine.max_context - self._estimated(turn.messages)
            return evolve(
                request,
                messages=turn.messages,
                tools=turn.tools,
                max_tokens=max(1, min(wanted, room)),
            )
        try:
            prompt = self._bridge.render(turn.messages, turn.calls, turn.tools)
        except RenderError as error:
            return Refusal(f"error: {str(error)[:200]}")
        room = self._engine.max_context - len(prompt)
        if room < 1:
            return Refusal("context")
        return evolve(request, prompt_ids=prompt, max_tokens=min(wanted, room))

    def _estimated(self, messages: Sequence[Message]) -> int:
        encode = self._engine.tokenizer.encode
        return sum(len(encode(message.content, special=False)) for message in messages)


def _spent(request: GenerationRequest, made: object) -> Spent:
    """Return what an answer that cannot be right cost all the same."""
    if not isinstance(made, Generation):
        return Spent()
    prompt, sampled = int(np.size(prompt_of(made, request))), int(np.size(made.token_ids))
    return Spent(1, prompt, cached_of(made, request) or 0, sampled, made.usd)


def _call(
    turn: Turn, request: GenerationRequest, answer: Generation | Refusal | Fault
) -> Call | Refusal | Fault:
    if not isinstance(answer, Generation):
        return answer
    return Call(
        prompt_ids=prompt_of(answer, request).astype(np.int32, copy=False),
        token_ids=answer.token_ids.astype(np.int32, copy=False),
        logprobs=answer.logprobs.astype(np.float32, copy=False),
        text=answer.text,
        finish_reason=answer.finish_reason,
        weights_id=answer.weights_id,
        messages=turn.messages,
        cached_tokens=int(answer.cached_tokens),
        usd=answer.usd,
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

    async def reply(self, turns: Sequence[Turn]) -> list[Reply]:
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
