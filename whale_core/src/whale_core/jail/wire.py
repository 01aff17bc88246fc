"""Reads the lines that an episode's process sends. Nothing in them is trusted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from whale_core.jail.events import ChatRequest, Ended, Event, Finished, ToolRequest
from whale_core.records import Json, Message
from whale_harness.model import MOST_STOPS, ROLES, STOP_LENGTH

DEPTH = 32  # of JSON values that are passed on
NAME_LENGTH = 200
MOST_TOKENS = 1 << 24
ERROR_LENGTH = 200


class ProtocolError(Exception):
    """A line that the SDK would not have sent."""


def encode(value: Json) -> bytes:
    """Return ``value`` as one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def event_of(line: bytes, ordinal: int, handles: Collection[int]) -> Event:
    """Return the event that ``line`` asks for.

    Args:
        line: one line without its end.
        ordinal: the number it must carry: lines are counted from 0, so none can be played twice.
        handles: the calls whose replies were given out; a message can carry no other handle.

    Raises:
        ProtocolError: it is not a line of the protocol.
    """
    kind, body = body_of(line, ordinal)
    if kind not in _READERS:
        raise ProtocolError(f"unknown kind {kind!r}")
    return _READERS[kind](body, handles)


def body_of(line: bytes, ordinal: int) -> tuple[str, Any]:
    """Return the kind and the body of a line ``{"n": ordinal, kind: body}``.

    Raises:
        ProtocolError: it is not such a line of bounded, valid JSON.
    """
    try:
        value = json.loads(
            line.decode(), parse_constant=_refuse_constant, parse_float=_finite_float
        )
        if b"\\u" in line:  # an escape can smuggle in half a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ProtocolError("not valid JSON") from error
    _require(type(value) is dict and len(value) == 2, "not an object of two members")
    number = value.pop("n", None)
    _require(type(number) is int and number == ordinal, "out of order")
    kind, body = value.popitem()
    return kind, body


def one_line(text: str) -> str:
    """Return ``text`` cut short, and without anything that a terminal would not print."""
    cut = text[:ERROR_LENGTH]
    return "".join(character if character.isprintable() else " " for character in cut)


def _chat(body: Any, handles: Collection[int]) -> ChatRequest:
    """Read a request for a model reply; only one that rejects earlier replies says which."""
    rejected = body.pop("rejected", []) if type(body) is dict else []
    _require(
        type(rejected) is list and all(type(c) is int and c in handles for c in rejected),
        "bad rejected calls",
    )
    messages, max_tokens, stop, tools = _members(body, "messages", "max_tokens", "stop", "tools")
    _require(type(messages) is list and len(messages) > 0, "no messages")
    _require(
        max_tokens is None or (type(max_tokens) is int and 1 <= max_tokens <= MOST_TOKENS),
        "bad max_tokens",
    )
    _require(type(stop) is list and len(stop) <= MOST_STOPS, "bad stop")
    for text in stop:
        _require(type(text) is str and 1 <= len(text) <= STOP_LENGTH, "bad stop string")
    _require(tools is None or type(tools) is list, "bad tools")
    _bound_depth(tools)
    checked = tuple(_message(message, handles) for message in messages)
    return ChatRequest(checked, max_tokens, tuple(stop), tools, tuple(rejected))


def _message(value: Any, handles: Collection[int]) -> Message:
    """Read one message; one with a handle must be an assistant message."""
    _require(type(value) is dict, "a message is not an object")
    call = None
    if len(value) == 3:
        role, content, call = _members(value, "role", "content", "call")
        _require(role == "assistant" and type(call) is int and call in handles, "a false handle")
    else:
        role, content = _members(value, "role", "content")
    _require(type(role) is str and role in ROLES and type(content) is str, "a bad message")
    return Message(role, content, call)


def _tool(body: Any, handles: Collection[int]) -> ToolRequest:
    """Read a call of the environment."""
    name, arguments = _members(body, "name", "arguments")
    _require(type(name) is str and len(name) <= NAME_LENGTH, "bad tool name")
    _require(type(arguments) is dict, "bad arguments")
    _bound_depth(arguments)
    return ToolRequest(name, arguments)


def _finished(body: Any, handles: Collection[int]) -> Finished:
    """Read the final answer."""
    _require(type(body) is str, "the answer is not a string")
    return Finished(body)


def _error(body: Any, handles: Collection[int]) -> Ended:
    """Read what the harness raised, as one printable line."""
    _require(type(body) is str, "the error is not a string")
    return Ended("error: " + one_line(body))


_READERS: Mapping[str, Callable[[Any, Collection[int]], Event]] = {
    "chat": _chat,
    "tool": _tool,
    "finished": _finished,
    "error": _error,
}


def _members(value: Any, *names: str) -> list[Any]:
    """Return the members of an object that has exactly ``names``."""
    _require(type(value) is dict and value.keys() == set(names), "wrong members")
    return [value[name] for name in names]


def _bound_depth(value: Json, depth: int = DEPTH) -> None:
    """Refuse a JSON value nested too deeply for whoever handles it next."""
    _require(depth > 0, "nested too deeply")
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    for item in inner:
        if type(item) in (dict, list):
            _bound_depth(item, depth - 1)


def _finite_float(text: str) -> float:
    """Read a number; refuse one that overflows."""
    number = float(text)
    _require(math.isfinite(number), "a number too large")
    return number


def _refuse_constant(text: str) -> NoReturn:
    """Refuse NaN and the infinities, which JSON does not have."""
    raise ProtocolError(f"{text} is not JSON")


def _require(condition: bool, problem: str) -> None:
    """Raise ProtocolError unless ``condition`` holds."""
    if not condition:
        raise ProtocolError(problem)
