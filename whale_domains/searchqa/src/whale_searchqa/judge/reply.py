"""What a judge replied: its verdict and the endpoint's own counts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import frozen

from whale_core.chat_completions import Prices, content_text, read_body, read_usage
from whale_core.records import Json, Spent

VERDICTS = {"CORRECT": True, "INCORRECT": False}
_WORD = re.compile(r"[^\W\d_]+")


@frozen
class Reply:
    """The text of a reply, and what it cost. Without a message the text is empty."""

    text: str
    spent: Spent


def verdict_of(text: str, answer: str) -> bool | None:
    """Return whether a reply says CORRECT; None where its first word is no verdict.

    A CORRECT with which the judged ``answer`` itself begins, letter for letter, may be an echo of
    it: it proves nothing, and a right answer does not begin so.
    """
    word = _first_word(text)
    verdict = VERDICTS.get(word.upper())
    return False if verdict and word == _first_word(answer) else verdict


def read_reply(text: str, prices: Prices | None) -> Reply:
    """Return the reply in a response's body. Raise ``Unreadable`` where its counts are missing."""
    body = read_body(text)
    return Reply(_content(body), read_usage(body).spent(prices))


def _first_word(text: str) -> str:
    found = _WORD.search(text)
    return found[0] if found else ""


def _content(body: Mapping[str, Json]) -> str:
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    return content_text(message.get("content")) or "" if isinstance(message, Mapping) else ""
