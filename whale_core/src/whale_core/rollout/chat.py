"""The token bridge: chat messages to token ids, exact for what the model itself sampled.

The chat template is rendered once per sequence of roles, with a placeholder for each content. The
template's own text (*glue*) is tokenised with special tokens, contents with special tokens split,
and a reply passed back unchanged is spliced in as the ids that were sampled. So a conversation's
next prompt begins with exactly the tokens of the call before it, where the template leaves earlier
turns as they were.

Two things that templates do with a content are followed. Those of reasoning models take an
assistant's text apart at its ``<think>`` tags, and drop or reformat the thinking of earlier turns:
such a text is rendered with its tags in place and a placeholder for each piece between them, and
its sampled ids are spliced in only where the template leaves the whole as it is. And a content that
is written as a JSON string (Llama 3 does that with tool results) is escaped as one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from attrs import frozen

from whale_core.records import Call, Ids, Json, Message
from whale_core.roles import Tokenizer

# The quote shows whether a template writes contents as JSON: it comes back with a backslash.
_PLACEHOLDER = '\ue000{}"\ue001'
_PLACEHOLDER_RE = re.compile('\ue000(\\d+)(\\\\?)"\ue001')
_TEXT = "\ue000"  # stands for a piece of text in a layout
_TAG = re.compile("(</?think>)")
_KEPT_CHARACTERS = 8192  # of one content: hostile ones would fill the memory
_KEPT_ROLES = 128
_KEPT_LAYOUT = 1024  # characters of all layouts of a conversation


class RenderError(ValueError):
    """What a harness sent cannot be put into the model's chat template; the episode fails."""


_Layouts = tuple[tuple[str, str], ...]
"""For each message its role and its layout: the text with ``_TEXT`` for each piece of it that the
template cannot look into. That is the whole text, unless it has ``<think>`` tags."""


@frozen
class _Slot:
    """A place for text in a rendered template: a message's whole content, or one ``piece``."""

    message: int
    piece: int | None = None
    escaped: bool = False  # as a JSON string


@frozen
class _Glue:
    """A rendered template: ``between[0]``, a text, ``between[1]``, a text, … as token ids."""

    slots: tuple[_Slot, ...]
    between: tuple[tuple[int, ...], ...]


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
        the sampled ids where the template leaves that text as it is; otherwise its text is new
        text. Raises ``RenderError`` for roles or tools that the chat template does not take.
        """
        cut = [_cut(message) for message in messages]
        layouts = tuple((m.role, layout) for m, (layout, _) in zip(messages, cut, strict=True))
        if tools:
            self._check_tools(tools)
            glue = self._render_glue(layouts, tools)
        else:
            glue = (self._glue if _is_short(layouts) else self._render_glue)(layouts)
        ids: list[int] = list(glue.between[0])
        for slot, after in zip(glue.slots, glue.between[1:], strict=True):
            message = messages[slot.message]
            whole = slot.piece is None and not slot.escaped
            sampled = _sampled_ids(message, calls) if whole else None
            if sampled is None:
                pieces = cut[slot.message][1]
                text = message.content if slot.piece is None else pieces[slot.piece]
                text = json.dumps(text, ensure_ascii=False)[1:-1] if slot.escaped else text
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

    def _render_glue(self, layouts: _Layouts, tools: Json | None = None) -> _Glue:
        slots: list[_Slot] = []

        def placed(slot: _Slot) -> str:
            slots.append(slot)
            return _PLACEHOLDER.format(len(slots) - 1)

        contents = []
        for index, (_, layout) in enumerate(layouts):
            if layout == _TEXT:
                contents.append(placed(_Slot(index)))
                continue
            fixed = layout.split(_TEXT)
            pieces = [placed(_Slot(index, piece)) for piece in range(len(fixed) - 1)]
            contents.append("".join(a + b for a, b in zip(fixed, [*pieces, ""], strict=True)))
        turns = [
            {"role": role, "content": content}
            for (role, _), content in zip(layouts, contents, strict=True)
        ]
        try:
            text = self._tokenizer.template(turns, tools)
        except Exception as error:  # templates raise what they like for roles they do not take
            raise RenderError(f"the chat template refuses this call: {error}") from error
        for index, (_, layout) in enumerate(layouts):
            # A text with tags that the template leaves as it is; its placeholders make it unique.
            if layout != _TEXT and _TEXT in layout:
                text = text.replace(contents[index], placed(_Slot(index)))
        parts = _PLACEHOLDER_RE.split(text)
        found = [int(number) for number in parts[1::3]]
        kept = tuple(
            _Slot(slots[number].message, slots[number].piece, bool(escaped))
            for number, escaped in zip(found, parts[2::3], strict=True)
        )
        _check_order(kept, layouts)
        between = tuple(tuple(self._tokenizer.encode(part, special=True)) for part in parts[::3])
        return _Glue(kept, between)

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


def _cut(message: Message) -> tuple[str, list[str]]:
    """Return the layout of a message and the pieces of text that it stands for.

    White space beside a tag belongs to the layout: templates trim it there.
    """
    if message.role != "assistant" or not _TAG.search(message.content):
        return _TEXT, [message.content]
    layout, pieces = "", []
    parts = _TAG.split(message.content)
    for index, part in enumerate(parts):
        if index % 2:
            layout += part
            continue
        right = part.lstrip() if index else part
        piece = right.rstrip() if index < len(parts) - 1 else right
        layout += part[: len(part) - len(right)]
        if piece:
            layout += _TEXT
            pieces.append(piece)
        layout += right[len(piece) :]
    return layout, pieces


def _is_short(layouts: _Layouts) -> bool:
    """Say whether what is made of these layouts may be kept."""
    return len(layouts) <= _KEPT_ROLES and sum(len(layout) for _, layout in layouts) <= _KEPT_LAYOUT


def _check_order(slots: Sequence[_Slot], layouts: _Layouts) -> None:
    """Raise ``RenderError`` unless every text is in its place once; of one with tags, what there
    is of it."""
    places = [(slot.message, -1 if slot.piece is None else slot.piece) for slot in slots]
    there = {slot.message for slot in slots}
    missing = any(
        layout == _TEXT and index not in there for index, (_, layout) in enumerate(layouts)
    )
    if missing or any(a >= b for a, b in pairwise(places)):
        raise RenderError(
            f"the model's chat template does not keep the messages "
            f"{', '.join(role for role, _ in layouts)} in order, each once"
        )
