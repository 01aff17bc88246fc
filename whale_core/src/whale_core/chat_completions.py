"""What all users of an endpoint share: its address, its key, its prices, its counts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen
from attrs.validators import ge

from whale_core.errors import InputError
from whale_core.records import Json, Spent

MOST_TOKENS = 1 << 24  # no model reads or writes so many: a count above it is none


@frozen
class Prices:
    """What a provider takes, in USD per million tokens."""

    input: float = field(validator=ge(0.0))
    """Prompt tokens."""
    output: float = field(validator=ge(0.0))
    """Sampled tokens, reasoning included."""
    cached: float | None = None
    """Prompt tokens that the provider had kept (null: as ``input``)."""

    def usd(self, prompt_tokens: int, cached_tokens: int, sampled_tokens: int) -> float:
        """Return what a call costs; ``cached_tokens`` are part of ``prompt_tokens``."""
        cached = self.input if self.cached is None else self.cached
        fresh = prompt_tokens - cached_tokens
        total = fresh * self.input + cached_tokens * cached + sampled_tokens * self.output
        return total / 1e6


@frozen
class Usage:
    """An endpoint's own counts for one request."""

    prompt: int
    cached: int
    sampled: int

    def spent(self, prices: Prices | None) -> Spent:
        """Return what the request cost; without prices its USD are 0."""
        usd = 0.0 if prices is None else prices.usd(self.prompt, self.cached, self.sampled)
        return Spent(1, self.prompt, self.cached, self.sampled, usd)


class Unreadable(ValueError):
    """A response that is no chat completion; ``spent`` is what it cost, where that is known."""

    spent = Spent()


def is_base_url(instance: object, attribute: Attribute[str], value: str) -> None:
    """Refuse a ``base_url`` that is no address. An attrs validator."""
    try:
        parts = urlsplit(value)
        more = parts.username or parts.password or parts.query or parts.fragment
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and not more
        sound = sound and value.isprintable() and parts.port != 0
    except ValueError:
        sound = False
    if not sound:  # the value is not shown: it may hold a key
        raise ValueError(
            "'base_url' must be http(s)://host/path; a key belongs into the environment variable "
            "that api_key_env names"
        )


def key_from(variable: str, role: str) -> str:
    """Return the key of ``role`` in an environment variable, empty if none is named.

    Raises ``InputError``, which never shows the value, when it is not set or cannot be a key.
    """
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(
            f"{role}.api_key_env={variable}: this environment variable is not set; put the key "
            f"into it, or set '{role}.api_key_env=\"\"' for an endpoint that needs none"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{role}.api_key_env={variable}: its value cannot be a key")
    return key


def has_none_of(own: tuple[str, ...], user: str) -> Any:
    """Return an attrs validator that refuses the request fields ``own``, which ``user`` decides."""

    def check(instance: object, attribute: Attribute[Any], value: dict[str, Any]) -> None:
        found = [name for name in own if name in value]
        if found:
            raise ValueError(f"'extra' cannot set {', '.join(found)}: the {user} does")

    return check


def read_body(text: str) -> Mapping[str, Json]:
    """Return a response's JSON object. Raise ``Unreadable`` if it is none, or tells an error."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the endpoint's answer is not JSON: {text[:60]!r}") from error
    return checked_body(body)


def checked_body(body: Json) -> dict[str, Json]:
    """Return a response's JSON as an object. Raise ``Unreadable`` if it is none, or tells an
    error."""
    if not isinstance(body, dict):
        raise Unreadable("the endpoint's answer is not a JSON object")
    if said := body.get("error"):
        told = said.get("message") if isinstance(said, Mapping) else said
        raise Unreadable(f"the endpoint answers with an error: {told}")
    return body


def read_usage(body: Mapping[str, Json]) -> Usage:
    """Return the counts in a response. Raise ``Unreadable`` if they are not there."""
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        raise Unreadable("the endpoint's answer has no usage: tokens cannot be counted")
    prompt = _count(usage, "prompt_tokens")
    sampled = _count(usage, "completion_tokens")
    total = usage.get("total_tokens")
    if type(total) is int and prompt + sampled < total <= MOST_TOKENS:
        sampled = total - prompt  # some providers leave hidden reasoning out of the other count
    return Usage(prompt, _cached(usage, prompt), sampled)


def content_text(content: Json) -> str | None:
    """Return a message's content as text, joined where it comes in parts; None if there is none."""
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else None


def _cached(usage: Mapping[str, Json], prompt: int) -> int:
    """Return how many prompt tokens the provider had kept, under any of the names in use; 0 where
    no count of that kind is told."""
    details = usage.get("prompt_tokens_details")
    told = [details.get("cached_tokens")] if isinstance(details, Mapping) else []
    told += [usage.get("cached_tokens"), usage.get("prompt_cache_hit_tokens")]
    return next((each for each in told if type(each) is int and 0 <= each <= prompt), 0)


def _count(usage: Mapping[str, Json], name: str) -> int:
    count = usage.get(name)
    if type(count) is not int or not 0 <= count <= MOST_TOKENS:
        raise Unreadable(
            f"the endpoint's usage.{name} is {str(count)[:40]}, not a number of tokens"
        )
    return count
