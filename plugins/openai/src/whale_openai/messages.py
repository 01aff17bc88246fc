"""A harness's messages as a chat endpoint takes them, and tool calls as text.

A harness sees text only. So a tool call that the model made stands in its reply as

    <tool_call>
    {"name": "look_up", "arguments": {"word": "vowel"}}
    </tool_call>

and an assistant message with such blocks, followed by as many tool messages, is sent as tool calls
with their answers. Everything else is sent as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from whale_core.records import Json, Message

BLOCK = re.compile(r"<tool_call>\n(\{.*\})\n</tool_call>")
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Wire = dict[str, Any]


class Unsendable(ValueError):
    """What a harness sent is no conversation that an endpoint takes; the episode fails."""


def call_text(name: str, arguments: Json) -> str:
    """Return a tool call as it stands in a reply's text."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def wire_messages(messages: Sequence[Message]) -> list[Wire]:
    """Return the messages of a request. Raise ``Unsendable`` for a tool message that answers
    nothing."""
    made: list[Wire] = []
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        if message.role == "tool":
            raise Unsendable(
                "a tool message answers no tool call: it must follow the reply that made the call, "
                "one for each call"
            )
        calls = _calls_in(message.content) if message.role == "assistant" else []
        answers = _leading_answers(rest)
        if not calls or len(calls) != len(answers):
            made.append({"role": message.role, "content": message.content})
            continue
        names = [f"call_{len(made)}_{number}" for number in range(len(calls))]
        before = message.content[: message.content.index("<tool_call>")].strip()
        made.append(
            {
                "role": "assistant",
                "content": before or None,
                "tool_calls": [
                    {"id": name, "type": "function", "function": call}
                    for name, call in zip(names, calls, strict=True)
                ],
            }
        )
        made += [
            {"role": "tool", "tool_call_id": name, "content": answer.content}
            for name, answer in zip(names, answers, strict=True)
        ]
        del rest[: len(answers)]
    return made


def wire_tools(tools: Json) -> list[Wire]:
    """Return tool schemas in the endpoint's form; the bare function is put into it.

    They are checked here: what an endpoint does with a wrong one may look like its own fault.
    """
    made = []
    for tool in tools:
        function = tool
        if isinstance(tool, Mapping) and tool.get("type") == "function":
            function = tool.get("function")
        if not isinstance(function, Mapping) or not _is_function(function):
            raise Unsendable(
                "tools= takes functions with a name of letters, digits, _ and -, a description and "
                "an object of parameters"
            )
        made.append({"type": "function", "function": dict(function)})
    return made


def _is_function(function: Mapping[str, Json]) -> bool:
    name, description = function.get("name"), function.get("description", "")
    return (
        set(function) <= {"name", "description", "parameters", "strict"}
        and isinstance(name, str)
        and TOOL_NAME.fullmatch(name) is not None
        and isinstance(description, str)
        and isinstance(function.get("parameters", {}), Mapping)
        and isinstance(function.get("strict", False), bool)
    )


def _calls_in(text: str) -> list[Wire]:
    """Return the tool calls that stand in ``text``; none if one of them cannot be read."""
    calls = []
    for block in BLOCK.findall(text):
        try:
            call = json.loads(block)
            name, arguments = call["name"], call["arguments"]
        except (ValueError, KeyError, RecursionError):
            return []
        if not isinstance(name, str):
            return []
        calls.append({"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)})
    return calls


def _leading_answers(messages: Sequence[Message]) -> list[Message]:
    """Return the tool messages at the front of ``messages``."""
    count = next((i for i, m in enumerate(messages) if m.role != "tool"), len(messages))
    return list(messages[:count])
