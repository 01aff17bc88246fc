"""What a judge replied: its verdict and the endpoint's own counts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from attrs import frozen

from whale_core.records import Json, Spent
from whale_searchqa.judge.config import Prices

VERDICTS = {"CORRECT": True, "INCORRECT": False}
MOST_TOKENS = 1 << 24  # no model reads or writes so many: a count above it is none
_WORD = re.compile(r"[^\W\d_]+")


class Unreadable(ValueError):
    """A response that is no chat completion with counts: what it cost is not known."""


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
    body = _json(text)
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        raise Unreadable("the endpoint's answer has no usage: tokens cannot be counted")
    prompt, sampled = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    total = usage.get("total_tokens")
    if type(total) is int and prompt + sampled < total <= MOST_TOKENS:
        sampled = total - prompt  # some providers leave hidden reasoning out of the other count
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    if type(cached) is not int or not 0 <= cached <= prompt:
        cached = 0
    usd = 0.0 if prices is None else prices.usd(prompt, cached, sampled)
    return Reply(_content(body), Spent(1, prompt, cached, sampled, usd))


def _first_word(text: str) -> str:
    found = _WORD.search(text)
    return found[0] if found else ""


def _json(text: str) -> Mapping[str, Json]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the endpoint's answer is not JSON: {text[:60]!r}") from error
    if not isinstance(body, Mapping):
        raise Unreadable("the endpoint's answer is not a JSON object")
    if said := body.get("error"):
        told = said.get("message") if isinstance(said, Mapping) else said
        raise Unreadable(f"the endpoint answers with an error: {told}")
    return body


def _count(usage: Mapping[str, Json], name: str) -> int:
    count = usage.get(name)
    if type(count) is not int or not 0 <= count <= MOST_TOKENS:
        raise Unreadable(
            f"the endpoint's usage.{name} is {str(count)[:40]}, not a number of tokens"
        )
    return count


def _content(body: Mapping[str, Json]) -> str:
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        content = "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
