"""The token bridge: chat messages to token ids, exact for what the model itself sampled.

The chat template is rendered once per sequence of roles, with a placeholder for each content. The
template's own text (*glue*) is tokenised with special tokens, contents with special tokens split,
and a reply passed back unchanged is spliced in as the ids that were sampled. So a conversation's
next prompt begins with exactly the tokens of the call before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from whale_core.records import Call, Ids, Json, Message
from whale_core.roles import Tokenizer

_PLACEHOLDER = "\ue000{}\ue001"
_PLACEHOLDER_RE = re.compile("\ue000(\\d+)\ue001")
_KEPT_CHARACTERS = 8192  # of one content: hostile ones would fill the memory
_KEPT_ROLES = 128


class RenderError(ValueError):
    """What a harness sent cannot be put into the model's chat template; the episode fails."""


class TokenBridge:
    """Renders messages for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._glue = lru_cache(maxsize=256)(self._render_glue)
        self._content = lru_cache(maxsize=2048)(self._encode_content)

    def render(
        self, messages: Sequence[Message], calls: Sequence[Call] = (), tools: Json | None = None
    ) -> Ids:
        """Return the prompt ids of ``messages``, generation prompt included.

        A message with a handle (``message.call``) whose text equals that call's text contributes
        the sampled ids; otherwise its text is new text. Raises ``RenderError`` for roles or tools
        that the chat template does not take.
        """
        if tools:
            self._check_tools(tools)
            glue = self._render_glue(tuple(message.role for message in messages), tools)
        else:
            roles = tuple(message.role for message in messages)
            glue = (self._glue if len(roles) <= _KEPT_ROLES else self._render_glue)(roles)
        ids: list[int] = list(glue[0])
        for message, after in zip(messages, glue[1:], strict=True):
            sampled = _sampled_ids(message, calls)
            if sampled is None:
                text = message.content
                short = len(text) <= _KEPT_CHARACTERS
                ids.extend((self._content if short else self._encode_content)(text))
                ids.extend(after)
                continue
            ids.extend(sampled)
            ended = sampled[-1] in self._tokenizer.end_tokens if sampled else False
            ids.extend(after[1:] if ended and after and after[0] == sampled[-1] else after)
        return np.asarray(ids, dtype=np.int32)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids`` without special tokens."""
        return self._tokenizer.decode(ids)

    def _render_glue(
        self, roles: tuple[str, ...], tools: Json | None = None
    ) -> tuple[tuple[int, ...], ...]:
        turns = [
            {"role": role, "content": _PLACEHOLDER.format(index)}
            for index, role in enumerate(roles)
        ]
        try:
            text = self._tokenizer.template(turns, tools)
        except Exception as error:  # templates raise what they like for roles they do not take
            raise RenderError(f"the chat template refuses this call: {error}") from error
        parts = _PLACEHOLDER_RE.split(text)
        found = [int(index) for index in parts[1::2]]
        if found != list(range(len(roles))):
            raise RenderError(
                f"the model's chat template does not keep the messages {', '.join(roles)} in "
                "order, each once"
            )
        return tuple(tuple(self._tokenizer.encode(part, special=True)) for part in parts[::2])

    def _check_tools(self, tools: Json) -> None:
        """Refuse tools that the template has no place for, or whose text would become control
        tokens: they are rendered as part of the template."""
        if not self._tokenizer.supports_tools:
            raise RenderError("this model's chat template does not support tools=")
        text = json.dumps(tools, ensure_ascii=False)
        plain = self._tokenizer.encode(text, special=False)
        if self._tokenizer.encode(text, special=True) != plain or set(text) & {"\ue000", "\ue001"}:
            raise RenderError("tools= contains a special token")

    def _encode_content(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, special=False))


def _sampled_ids(message: Message, calls: Sequence[Call]) -> list[int] | None:
    """Return the sampled ids this message stands for, or None when it is new text."""
    if message.call is None or not 0 <= message.call < len(calls):
        return None
    call = calls[message.call]
    if message.role != "assistant" or call.text != message.content:
        return None
    return [int(token) for token in call.token_ids]
