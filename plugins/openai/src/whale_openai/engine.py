"""The rollout engine ``openai``: requests to a chat endpoint, through the official SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openai
from attrs import evolve

from whale_core.byte_tokenizer import ByteTokenizer
from whale_core.chat_completions import Unreadable, key_from
from whale_core.errors import EngineError, InputError
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.records import (
    Fault,
    Generation,
    GenerationRequest,
    Json,
    Message,
    Refusal,
    Sampling,
    Spent,
)
from whale_openai.config import Config
from whale_openai.failures import CONTEXT, Failure, Kind, of_error, of_status
from whale_openai.messages import Unsendable, wire_messages, wire_tools
from whale_openai.pace import Pace
from whale_openai.reply import read_reply

NO_KEY = "none"  # the SDK wants one; an endpoint that needs none does not look at it
BACKOFF = 120.0  # the most seconds that the SDK waits between two tries (a Retry-After)
# A model that reasons first may refuse to answer within one token.
PROBE_TOKENS = (1, 1024)
REMEDY = {
    Kind.REFUSED: "see engine.model, engine.limit_field, engine.send, engine.logprobs, "
    "engine.token_ids and engine.extra",
    Kind.DENIED: "see the key in the variable that engine.api_key_env names, engine.model and "
    "engine.base_url (it often ends in /v1)",
    Kind.UNUSABLE: "choose another endpoint",
    Kind.FAILED: "is it running, is engine.base_url right, is a quota used up?",
}

Answer = Generation | Failure


class OpenAIEngine:
    """Implements ``RolloutEngine`` and ``TakesMessages`` of the core over Chat Completions.

    It serves one model for search and evaluation, and with ``engine.token_ids`` for rollouts whose
    calls make training rows. Weights are never handed over to the endpoint.
    """

    takes_weights = False
    vocabulary = 0

    def __init__(self, config: Config, setup: Setup) -> None:
        """Take the key from the environment. Raise ``InputError`` when it or the model is missing.

        Nothing is asked of the endpoint yet: ``probe`` does.
        """
        if not config.model:
            raise InputError("engine.model: missing, name the model that the endpoint serves")
        self._config = config
        self._key = key_from(config.api_key_env, "engine")
        self._client: openai.AsyncOpenAI | None = None
        self._served: str | None = None  # the model's name in the endpoint's own words
        self._sampling = Sampling()
        self._pace = Pace(config.requests_per_minute)
        self.tokenizer = ByteTokenizer()
        self.max_context = config.max_context
        self.trains = config.token_ids
        self.priced = config.prices is not None
        self.notes = tuple(notes_on(config))

    def facts(self) -> Mapping[str, Json]:
        """Return what is known of what answers, for the manifest."""
        config = self._config
        return {
            "engine": "openai",
            "base_url": config.base_url,
            "model": config.model,
            "served_model": self._served,
            "sent": sorted(config.send),
            "max_context": config.max_context,
            "sdk": openai.__version__,
            **({"token_ids": True} if config.token_ids else {}),  # runs without are as they were
        }

    async def probe(self, sampling: Sampling) -> Spent:
        """Ask for one token as the run will ask, and learn what the endpoint calls its model.

        Raises:
            InputError: it refuses key, model or settings, or answers without counts, or without
                the token ids that are asked for.
            EngineError: it cannot be reached, or is out of order.
        """
        async with self._connect() as client:
            answer = await self._probed(client, sampling)
        if isinstance(answer, Failure):
            config = self._config
            line = f"engine openai: {config.base_url}, model {config.model}: {answer.reason}"
            error = EngineError if answer.kind is Kind.FAILED else InputError
            raise error(f"{line}; {REMEDY[answer.kind]}")
        self._sampling = sampling
        self._served = answer.weights_id
        return spent_on(answer)

    async def generate(
        self, requests: Sequence[GenerationRequest]
    ) -> list[Generation | Refusal | Fault]:
        """Return one answer per request, in order; some are under way at the same time.

        A request that the endpoint refuses is the harness's fault if the endpoint still answers the
        probe's question, and a fault of the endpoint otherwise (a key that was revoked, say).
        """
        client = self._client = self._client or self._connect()
        free = asyncio.Semaphore(self._config.concurrency)

        async def one(request: GenerationRequest) -> Answer:
            async with free:
                return await self._ask(client, request)

        answers = await asyncio.gather(*(one(request) for request in requests))
        refused = [i for i, a in enumerate(answers) if _is(a, Kind.REFUSED)]
        check = await self._probed(client, self._sampling) if refused else None
        made: list[Generation | Refusal | Fault] = []
        for index, answer in enumerate(answers):
            if isinstance(answer, Generation):
                made.append(evolve(answer, weights_id=self._identity(answer.weights_id)))
            elif answer.kind is Kind.UNSENDABLE:
                made.append(refusal(answer.reason, Spent()))
            elif answer.kind is Kind.REFUSED and isinstance(check, Generation):
                spent = spent_on(check) if index == refused[0] else Spent()
                made.append(refusal(answer.reason, spent))
            else:
                made.append(Fault(answer.reason, answer.spent))
        return made

    async def weights_id(self) -> str:
        """Return the hash of the endpoint's address, the model's name, and the endpoint's name for
        it (an alias may come to mean another model)."""
        if self._served is None:
            raise EngineError("the endpoint has not been asked yet what it serves: probe first")
        return self._identity(self._served)

    async def load(self, path: Path | None) -> str:
        """Serve what is served anyway. Raise ``InputError`` for a checkpoint."""
        if path is not None:
            raise InputError(f"engine openai: an endpoint cannot serve the weights in {path}")
        return await self.weights_id()

    async def save(self, path: Path) -> str:
        """Raise ``InputError``: an endpoint does not hand out its weights."""
        raise InputError("engine openai: an endpoint does not hand out its weights")

    async def forget(self) -> None:
        """What the provider caches is its own affair."""

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _connect(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            api_key=self._key or NO_KEY,
            base_url=self._config.base_url,
            timeout=self._config.timeout,
            max_retries=self._config.retries,
            http_client=self._pace.client(),
        )

    async def _probed(self, client: openai.AsyncOpenAI, sampling: Sampling) -> Answer:
        answer: Answer | None = None
        for tokens in PROBE_TOKENS:
            request = GenerationRequest(
                prompt_ids=np.empty(0, np.int32),
                max_tokens=min(tokens, self.max_context),
                stop=(),
                sampling=sampling,
                stream=bytes(16),
                messages=(Message("user", "Hi"),),
            )
            answer = await self._ask(client, request)
            if not _is(answer, Kind.REFUSED):
                break
        assert answer is not None
        return answer

    async def _ask(self, client: openai.AsyncOpenAI, request: GenerationRequest) -> Answer:
        """Send one request; never raises but when it is cancelled.

        The ``weights_id`` of a generation is what the endpoint calls its model.
        """
        config = self._config
        # A server that sends a byte now and then would pass every timeout of one read.
        wait = BACKOFF + self._pace.longest(config.concurrency)
        most = (config.retries + 1) * (config.timeout + wait)
        try:
            body = body_of(request, config)
            async with asyncio.timeout(most):
                raw = await client.chat.completions.with_raw_response.create(
                    model=config.model, messages=body.pop("messages"), extra_body=body
                )
            made, served = read_reply(raw.text, request, config.prices, config.token_ids)
        except Unsendable as error:
            return Failure(Kind.UNSENDABLE, str(error))
        except Unreadable as error:
            failure = Failure(Kind.UNUSABLE, str(error), error.spent)
        except openai.APIStatusError as error:
            failure = of_status(error)
        except Exception as error:  # whatever the SDK or the network make of an answer
            failure = of_error(error, config.timeout)
        else:
            return evolve(made, weights_id=served)
        return evolve(failure, reason=self._clean(failure.reason))

    def _identity(self, served: str) -> str:
        return content_hash("openai", self._config.base_url, self._config.model, served)

    def _clean(self, text: str) -> str:
        """Return an endpoint's words without the key, on one line."""
        shown = text.replace(self._key, "***") if self._key else text
        return " ".join(shown.split())


def body_of(request: GenerationRequest, config: Config) -> dict[str, Any]:
    """Return the fields of one request but the model's name.

    Stop strings are looked for in the reply: an endpoint takes few of them and leaves them out of
    the text. One that is told to keep them (``extra: {include_stop_str_in_output: true}``, and
    always for token ids) gets them. ``seed`` is 31 bits of the request's random stream.
    """
    sampling = request.sampling
    decoding = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "seed": int.from_bytes(request.stream[:4]) >> 1,
    }
    body: dict[str, Any] = {
        **config.extra,
        "messages": wire_messages(request.messages),
        config.limit_field: request.max_tokens,
        **{name: decoding[name] for name in config.send},
    }
    if request.tools:
        body["tools"] = wire_tools(request.tools)
    if config.logprobs or config.token_ids:
        body["logprobs"] = True
    if config.token_ids:
        body["return_token_ids"] = body["include_stop_str_in_output"] = True
    if request.stop and body.get("include_stop_str_in_output") is True:
        body["stop"] = list(request.stop)
    return body


def notes_on(config: Config) -> list[str]:
    """Return what a user must know of a run on this endpoint."""
    notes = []
    if config.prices is None:
        notes.append(
            "engine.prices is not set: what the endpoint's calls cost in USD is not known, and the "
            "ledger shows 0"
        )
    if config.token_ids:
        notes.append(
            "the log-probabilities of training rows are the endpoint's own: vLLM tells those of "
            "temperature 1, and with --logprobs-mode processed_logprobs those after all filters"
        )
    left_out = [name for name in ("temperature", "top_p", "top_k") if name not in config.send]
    if left_out:
        settings = " and ".join(f"rollout.{name}" for name in left_out)
        notes.append(
            f"{settings}: not sent to the endpoint, which decodes as it likes there (engine.send)"
        )
    return notes


def refusal(reason: str, spent: Spent) -> Refusal:
    """Return why a harness's request is not answered; ``context`` has a name of its own."""
    return Refusal(reason if reason == CONTEXT else f"error: {reason}", spent)


def spent_on(answer: Generation) -> Spent:
    """Return what a generation cost."""
    prompt = 0 if answer.prompt_ids is None else len(answer.prompt_ids)
    return Spent(1, prompt, answer.cached_tokens, len(answer.token_ids), answer.usd)


def _is(answer: Answer, kind: Kind) -> bool:
    return isinstance(answer, Failure) and answer.kind is kind
