"""What an episode's process can make happen: it asks for something, or it ends."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from whale_core.records import Json, Message


@frozen
class ChatRequest:
    """The harness wants a model reply; answer with ``Episode.reply_chat``."""

    messages: tuple[Message, ...]
    max_tokens: int | None
    stop: tuple[str, ...]
    tools: list[Json] | None
    rejected: tuple[int, ...] = ()  # calls whose replies it could not use, told with this one


@frozen
class ToolRequest:
    """The harness calls the environment; answer with ``reply_tool`` or ``reply_tool_error``."""

    name: str
    arguments: Mapping[str, Json]


@frozen
class Finished:
    """The harness returned its final answer."""

    answer: str


@frozen
class Ended:
    """The episode ended without an answer.

    ``reason`` is ``error: <type>: <message>``, ``cpu``, ``memory``, ``stalled``, ``died``,
    ``bytes`` or ``protocol``. With ``infrastructure`` the jail itself failed, and the harness is
    not to blame.
    """

    reason: str
    infrastructure: bool = False


Event = ChatRequest | ToolRequest | Finished | Ended
