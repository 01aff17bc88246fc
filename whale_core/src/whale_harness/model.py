"""The model as a harness sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whale_harness.channel import Channel

ROLES = ("system", "user", "assistant", "tool")
MOST_STOPS = 16
STOP_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model sampled.

    Passed back in ``messages``, unchanged, it stands for its exact tokens: ``call`` is the handle.
    ``finish_reason`` is ``end``, ``stop`` (a stop string, which is part of ``text``) or ``length``.
    """

    text: str
    finish_reason: str
    call: int

    def message(self) -> dict[str, Any]:
        """Return the reply as an assistant message that carries its handle."""
        return {"role": "assistant", "content": self.text, "call": self.call}


class Model:
    """The policy under this episode's limits of calls and sampled tokens."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._rejected: list[int] = []

    def reject(self, reply: Reply) -> None:
        """Say that a reply could not be used (it has no answer in it, say) and is asked for again.

        Nothing changes in this episode; training may leave rejected replies out. The next ``chat``
        tells it: a reply after which nothing is asked needs no word.
        """
        self._rejected.append(reply.call)

    async def chat(
        self,
        messages: Sequence[Mapping[str, Any] | Reply],
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Reply:
        """Sample a reply to ``messages`` (``{"role", "content"}`` mappings, or earlier replies).

        Args:
            messages: the conversation; an assistant message may be an earlier ``Reply``.
            max_tokens: at most so many tokens; None leaves it to the episode's limit.
            stop: sampling ends after the first of these strings.
            tools: tool schemas for chat templates that support them.

        Raises:
            TypeError: an argument has the wrong form.
            ValueError: an argument is out of range.
        """
        if isinstance(stop, str) or not all(isinstance(text, str) for text in stop):
            raise TypeError("stop must be a sequence of strings")
        if len(stop) > MOST_STOPS or not all(1 <= len(text) <= STOP_LENGTH for text in stop):
            raise ValueError(
                f"stop takes at most {MOST_STOPS} strings of 1 to {STOP_LENGTH} characters"
            )
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise ValueError(f"max_tokens must be a whole number of at least 1, not {max_tokens!r}")
        if not messages:
            raise ValueError("messages must not be empty")
        body: dict[str, Any] = {
            "messages": [_wire_message(message) for message in messages],
            "max_tokens": max_tokens,
            "stop": list(stop),
            "tools": None if tools is None else list(tools),
        }
        if self._rejected:
            body["rejected"], self._rejected = self._rejected, []
        answer = self._channel.ask("chat", body)
        return Reply(answer["text"], answer["finish_reason"], answer["call"])


def _wire_message(message: Mapping[str, Any] | Reply) -> dict[str, Any]:
    """Return the message in wire form, or say what is wrong with it."""
    wire = message.message() if isinstance(message, Reply) else dict(message)
    if not {"role", "content"} <= wire.keys() <= {"role", "content", "call"}:
        raise TypeError(f"a message has the keys role and content, not {sorted(wire)}")
    if wire["role"] not in ROLES:
        raise TypeError(f"a message's role is one of {', '.join(ROLES)}, not {wire['role']!r}")
    if not isinstance(wire["content"], str):
        raise TypeError(f"a message's content is a str, not {type(wire['content']).__name__}")
    return wire
