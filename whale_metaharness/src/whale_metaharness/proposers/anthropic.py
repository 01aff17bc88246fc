"""The proposer ``anthropic``: a model behind the Messages API, through the official SDK.

The tools, the instructions and the conversation so far are marked for the provider's prompt cache,
so that a turn costs little more than what is new in it.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from attrs import frozen

from whale_core.chat_completions import MOST_TOKENS, Unreadable
from whale_core.plugins import Setup
from whale_core.records import Json, Spent
from whale_metaharness.proposers.agent import AgentProposer
from whale_metaharness.proposers.conversation import ModelTurn, Reply, ToolSpec, Turn, UserTurn
from whale_metaharness.proposers.endpoint import NO_KEY, Access, plain, read_answer, tool_call
from whale_metaharness.proposers.settings import AnthropicConfig, CachePrices

if TYPE_CHECKING:
    import anthropic

CACHE = {"cache_control": {"type": "ephemeral"}}
CACHED_TURNS = 2  # the newest, and the one before: what the last request has had kept
ECHOED = {  # what a provider wants to hear again of a block
    "text": ("type", "text"),
    "thinking": ("type", "thinking", "signature"),
    "redacted_thinking": ("type", "data"),
}
STOPS = {"tool_use": "calls", "max_tokens": "length", "refusal": "refusal"}


class AnthropicProposer(AgentProposer):
    """Proposes with a model behind the Messages API."""

    def __init__(self, config: AnthropicConfig, setup: Setup) -> None:
        super().__init__(config, Messages(config))


@frozen
class Usage:
    """The counts of one request; ``prompt`` is neither read from the cache nor written to it."""

    prompt: int = 0
    written: int = 0
    cached: int = 0
    sampled: int = 0

    def spent(self, prices: CachePrices | None) -> Spent:
        """Return what the request cost; without prices its USD are 0."""
        every = self.prompt + self.written + self.cached
        usd = 0.0
        if prices is not None:
            usd = prices.usd(every, self.cached, self.sampled)
            if prices.cache_write is not None:
                usd += self.written * (prices.cache_write - prices.input) / 1e6
        return Spent(1, every, self.cached, self.sampled, usd)


class Messages:
    """Implements ``Provider`` for the Messages API."""

    name = "anthropic"

    def __init__(self, config: AnthropicConfig) -> None:
        self._config = config
        self._access = Access(self.name, config)
        self._prices = config.prices or listed_prices(config.model)
        self._client: anthropic.AsyncAnthropic | None = None
        self.address = f"{config.base_url}, model {config.model}"
        self.priced = self._prices is not None

    def body(
        self, system: str, turns: Sequence[Turn], tools: Sequence[ToolSpec], limit: int
    ) -> dict[str, Json]:
        """Return the fields of a request."""
        told = [index for index, turn in enumerate(turns) if isinstance(turn, UserTurn)]
        cached = told[-CACHED_TURNS:]
        return {
            **self._config.extra,
            "model": self._config.model,
            "max_tokens": limit,
            "system": [{"type": "text", "text": system, **CACHE}],
            "tools": [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema()}
                for tool in tools
            ],
            "messages": [_message(turn, index in cached) for index, turn in enumerate(turns)],
        }

    async def send(self, body: Mapping[str, Json], seconds: float) -> tuple[Json, Spent]:
        """Send a request through the SDK, which makes one try of it."""
        import anthropic

        if self._client is None:
            self._client = anthropic.AsyncAnthropic(
                api_key=self._access.key or NO_KEY,
                base_url=self._config.base_url,
                timeout=self._config.call_seconds,
                max_retries=0,
            )
        more = dict(body)
        asked: Any = {name: more.pop(name) for name in ("model", "max_tokens", "messages")}
        seen = Pieces()
        try:
            async with asyncio.timeout(seconds):
                create = self._client.messages
                if self._config.stream:
                    stream = await create.create(**asked, stream=True, extra_body=more)
                    async with stream:
                        async for event in stream:
                            seen.take(plain(event))
                    message = seen.whole()
                else:
                    raw = await create.with_raw_response.create(**asked, extra_body=more)
                    message = read_answer(await raw.text())
                    seen.usage = read_usage(message.get("usage"), seen.usage)
        except Exception as error:
            spent = seen.usage.spent(self._prices) if seen.usage != Usage() else Spent()
            raise self._access.error(error, anthropic, seconds, spent) from error
        return message, seen.usage.spent(self._prices)

    def read(self, raw: Json) -> Reply:
        """Return what a message says."""
        content = raw.get("content")
        if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
            raise Unreadable("the endpoint's message has no content blocks")
        calls, blocks, known = [], [], set[str]()
        for block in content:
            if block.get("type") == "tool_use":
                call = tool_call(block.get("id"), block.get("name"), block.get("input"), known)
                calls.append(call)
                named = call.name or "nameless"
                echo = {"type": "tool_use", "id": call.id, "name": named}
                blocks.append({**echo, "input": dict(call.arguments)})
            elif block.get("type") != "text" or block.get("text"):  # an empty one is refused
                told = ECHOED.get(str(block.get("type")), tuple(block))
                blocks.append({key: block[key] for key in told if key in block})
        texts = [str(b["text"]) for b in blocks if isinstance(b.get("text"), str)]
        stop = STOPS.get(str(raw.get("stop_reason")), "end")
        turn = ModelTurn(blocks or [{"type": "text", "text": "(nothing)"}])
        return Reply(turn, "\n".join(texts), tuple(calls), stop)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class Pieces:
    """A message that arrives piece by piece, and its counts so far."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._message: dict[str, Json] | None = None
        self._blocks: dict[int, dict[str, Json]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._over = False

    def take(self, event: Mapping[str, Json]) -> None:
        """Take the next event of the stream. Raises ``Unreadable`` if it cannot be one."""
        try:
            self._take(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise Unreadable(f"the endpoint's stream has an odd event: {error}") from error

    def whole(self) -> dict[str, Json]:
        """Return the message. Raises ``Unreadable`` if the stream ended before it did."""
        if self._message is None or not self._over:
            raise Unreadable("the endpoint's stream ended before its message did")
        for index, parts in self._inputs.items():
            self._blocks[index]["input"] = "".join(parts) or "{}"
        content = [self._blocks[index] for index in sorted(self._blocks)]
        whole: dict[str, Json] = {**self._message, "content": content}
        return whole

    def _take(self, event: Mapping[str, Json]) -> None:
        match event.get("type"):
            case "message_start":
                self._message = dict(event["message"])
                self.usage = read_usage(self._message.get("usage"), self.usage)
            case "content_block_start":
                self._blocks[event["index"]] = dict(event["content_block"])
                if event["content_block"].get("type") == "tool_use":
                    self._inputs[event["index"]] = []
            case "content_block_delta":
                self._add(event["index"], event["delta"])
            case "message_delta":
                self._message = {**(self._message or {}), **event["delta"]}
                self.usage = read_usage(event.get("usage"), self.usage)
            case "message_stop":
                self._over = True

    def _add(self, index: int, delta: Mapping[str, Json]) -> None:
        block = self._blocks[index]
        match delta["type"]:
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "input_json_delta":
                self._inputs[index].append(delta["partial_json"])


def listed_prices(model: str) -> CachePrices | None:
    """Return what ``prices.toml`` says of a model."""
    place = resources.files("whale_metaharness.proposers") / "prices.toml"
    row = tomllib.loads(place.read_text(encoding="utf-8")).get(model)
    return None if row is None else CachePrices(**row)


def read_usage(told: Json, before: Usage) -> Usage:
    """Return the counts that an answer or an event tells; what it leaves out is as before.

    Raises:
        Unreadable: there are none, or they are no numbers of tokens.
    """
    if not isinstance(told, Mapping):
        raise Unreadable("the endpoint's answer has no usage: tokens cannot be counted")
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = []
    old = (before.prompt, before.written, before.cached, before.sampled)
    for name, then in zip((*names, "output_tokens"), old, strict=True):
        count = told.get(name)
        count = then if count is None else count
        if type(count) is not int or not 0 <= count <= MOST_TOKENS:
            raise Unreadable(f"the endpoint's usage.{name} is {str(count)[:40]}")
        counts.append(count)
    return Usage(*counts)


def _message(turn: Turn, cached: bool) -> dict[str, Json]:
    if isinstance(turn, ModelTurn):
        return {"role": "assistant", "content": turn.content}
    blocks: list[dict[str, Json]] = [
        {
            "type": "tool_result",
            "tool_use_id": result.id,
            "content": result.text or "(empty)",
            "is_error": result.error,
        }
        for result in turn.results
    ]
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    if cached:
        blocks[-1] = {**blocks[-1], **CACHE}
    return {"role": "user", "content": blocks}
