"""The proposer ``openai``: a model behind any Chat Completions endpoint, through the official SDK.

A local server will do (vLLM with ``--enable-auto-tool-choice``, say). Most endpoints keep the
beginning of a conversation by themselves; what they say they kept is in the accounts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whale_core.chat_completions import Unreadable, content_text, read_usage
from whale_core.plugins import Setup
from whale_core.records import Json, Spent
from whale_metaharness.proposers.agent import AgentProposer
from whale_metaharness.proposers.conversation import ModelTurn, Reply, ToolSpec, Turn
from whale_metaharness.proposers.endpoint import NO_KEY, Access, plain, read_answer, tool_call
from whale_metaharness.proposers.settings import OpenAIConfig

if TYPE_CHECKING:
    import openai

STOPS = {"tool_calls": "calls", "length": "length", "content_filter": "refusal"}


class OpenAIProposer(AgentProposer):
    """Proposes with a model behind Chat Completions."""

    def __init__(self, config: OpenAIConfig, setup: Setup) -> None:
        super().__init__(config, ChatCompletions(config))


class ChatCompletions:
    """Implements ``Provider`` for Chat Completions."""

    name = "openai"

    def __init__(self, config: OpenAIConfig) -> None:
        self._config = config
        self._access = Access(self.name, config)
        self._client: openai.AsyncOpenAI | None = None
        self.address = f"{config.base_url}, model {config.model}"
        self.priced = config.prices is not None

    def body(
        self, system: str, turns: Sequence[Turn], tools: Sequence[ToolSpec], limit: int
    ) -> dict[str, Json]:
        """Return the fields of a request."""
        body: dict[str, Json] = {
            **self._config.extra,
            "model": self._config.model,
            self._config.limit_field: limit,
            "messages": [
                {"role": "system", "content": system},
                *(message for turn in turns for message in _messages(turn)),
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.schema(),
                    },
                }
                for tool in tools
            ],
        }
        if self._config.stream:
            body["stream_options"] = {"include_usage": True}
        return body

    async def send(self, body: Mapping[str, Json], seconds: float) -> tuple[Json, Spent]:
        """Send a request through the SDK, which makes one try of it."""
        import openai

        if self._client is None:
            self._client = openai.AsyncOpenAI(
                api_key=self._access.key or NO_KEY,
                base_url=self._config.base_url,
                timeout=self._config.call_seconds,
                max_retries=0,
            )
        more = dict(body)
        asked: Any = {name: more.pop(name) for name in ("model", "messages")}
        seen = Pieces()
        try:
            async with asyncio.timeout(seconds):
                create = self._client.chat.completions
                if self._config.stream:
                    stream = await create.create(**asked, stream=True, extra_body=more)
                    async with stream:
                        async for chunk in stream:
                            seen.take(plain(chunk))
                    answer = seen.whole()
                else:
                    raw = await create.with_raw_response.create(**asked, extra_body=more)
                    answer = read_answer(raw.text)
                return answer, read_usage(answer).spent(self._config.prices)
        except Exception as error:
            spent = self._spent(seen.answer)
            raise self._access.error(error, openai, seconds, spent) from error

    def read(self, raw: Json) -> Reply:
        """Return what a completion says."""
        try:
            choice = raw["choices"][0]
            message = choice["message"]
            text = content_text(message.get("content")) or ""
            asked = message.get("tool_calls") or []
            known: set[str] = set()
            calls = tuple(
                tool_call(each.get("id"), each["function"].get("name"), _arguments(each), known)
                for each in asked
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise Unreadable(
                "the endpoint's answer is no chat completion with a message"
            ) from error
        echo: dict[str, Json] = {
            "role": "assistant",
            "content": text or ("" if calls else "(nothing)"),
        }
        if calls:
            echo["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.name or "nameless",
                        "arguments": _sent(call.arguments),
                    },
                }
                for call in calls
            ]
        stop = STOPS.get(str(choice.get("finish_reason")), "end")
        return Reply(ModelTurn(echo), text, calls, stop)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _spent(self, answer: Mapping[str, Json]) -> Spent:
        """Return what a stream that broke off has cost, as far as it told."""
        try:
            return read_usage(answer).spent(self._config.prices)
        except Unreadable:
            return Spent()


class Pieces:
    """A completion that arrives piece by piece."""

    def __init__(self) -> None:
        self.answer: dict[str, Json] = {}
        self._texts: list[str] = []
        self._calls: dict[int, dict[str, Json]] = {}
        self._finish: Json = None

    def take(self, chunk: Mapping[str, Json]) -> None:
        """Take the next chunk. Raises ``Unreadable`` if it cannot be one."""
        try:
            if chunk.get("usage"):
                self.answer["usage"] = chunk["usage"]
            for choice in chunk.get("choices") or []:
                delta = choice.get("delta") or {}
                if isinstance(delta.get("content"), str):
                    self._texts.append(delta["content"])
                for part in delta.get("tool_calls") or []:
                    self._add(part)
                self._finish = choice.get("finish_reason") or self._finish
        except (KeyError, TypeError, AttributeError) as error:
            raise Unreadable(f"the endpoint's stream has an odd chunk: {error}") from error

    def whole(self) -> dict[str, Json]:
        """Return the completion. Raises ``Unreadable`` if the stream ended before it did."""
        if self._finish is None:
            raise Unreadable("the endpoint's stream ended before its message did")
        message: dict[str, Json] = {"role": "assistant", "content": "".join(self._texts)}
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        self.answer["choices"] = [{"message": message, "finish_reason": self._finish}]
        return self.answer

    def _add(self, part: Mapping[str, Json]) -> None:
        call = self._calls.setdefault(
            int(part["index"]), {"id": None, "function": {"name": "", "arguments": ""}}
        )
        call["id"] = part.get("id") or call["id"]
        function = part.get("function") or {}
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        call["function"]["arguments"] += function.get("arguments") or ""


def _messages(turn: Turn) -> list[dict[str, Json]]:
    if isinstance(turn, ModelTurn):
        return [turn.content]
    messages: list[dict[str, Json]] = [
        {"role": "tool", "tool_call_id": result.id, "content": result.text}
        for result in turn.results
    ]
    if turn.text or not messages:
        messages.append({"role": "user", "content": turn.text})
    return messages


def _arguments(call: Mapping[str, Json]) -> Json:
    arguments = call["function"].get("arguments")
    return "" if arguments is None else arguments


def _sent(arguments: Mapping[str, Json]) -> str:
    return json.dumps(dict(arguments), ensure_ascii=False)
