"""Settings of the rollout engine `openai`."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen
from attrs.validators import deep_iterable, ge, gt, in_

SENDABLE = ("temperature", "top_p", "top_k", "seed")
# What the engine itself decides; another value would make accounts or replies wrong.
OWN_FIELDS = (
    "model",
    "messages",
    "tools",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "n",
    "stream",
    "logprobs",
    *SENDABLE,
)


def _is_url(instance: object, attribute: Attribute[str], value: str) -> None:
    try:
        parts = urlsplit(value)
        credentials = parts.username or parts.password or parts.query or parts.fragment
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and not credentials
    except ValueError:
        sound = False
    if not sound:  # the value is not shown: it may hold a key
        raise ValueError(
            "'base_url' must be http(s)://host/path; a key belongs into the environment variable "
            "that api_key_env names"
        )


def _is_extra(instance: object, attribute: Attribute[Any], value: dict[str, Any]) -> None:
    own = [name for name in OWN_FIELDS if name in value]
    if own:
        raise ValueError(f"'extra' cannot set {', '.join(own)}: the engine does")


@frozen
class Prices:
    """What the provider takes, in USD per million tokens; cached prompt tokens are input tokens
    that it had kept (null: at the price of input)."""

    input: float = field(validator=ge(0.0))
    output: float = field(validator=ge(0.0))
    cached: float | None = None

    def usd(self, prompt_tokens: int, cached_tokens: int, sampled_tokens: int) -> float:
        """Return what a call costs; ``cached_tokens`` are part of ``prompt_tokens``."""
        cached = self.input if self.cached is None else self.cached
        fresh = prompt_tokens - cached_tokens
        total = fresh * self.input + cached_tokens * cached + sampled_tokens * self.output
        return total / 1e6


@frozen
class Config:
    """Which endpoint serves which model, and how it is asked.

    ``api_key_env`` names the environment variable that holds the key (empty: no key is needed).
    ``max_context`` is the model's, in tokens. At most ``concurrency`` requests are under way at
    once; one try of a request may take ``timeout`` seconds, and ``retries`` more are made after
    rate limits, server errors and lost connections. ``limit_field`` is what the provider calls the
    most tokens to sample. ``send`` lists the decoding settings that it accepts, ``extra`` more
    fields of every request. With ``logprobs`` it is asked for log-probabilities.
    """

    base_url: str = field(default="https://api.openai.com/v1", validator=_is_url)
    model: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    max_context: int = field(default=32768, validator=ge(2))
    concurrency: int = field(default=32, validator=ge(1))
    timeout: float = field(default=300.0, validator=gt(0.0))
    retries: int = field(default=4, validator=ge(0))
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    send: tuple[str, ...] = field(
        default=("temperature", "top_p", "seed"), validator=deep_iterable(in_(SENDABLE))
    )
    logprobs: bool = False
    extra: dict[str, Any] = field(factory=dict, validator=_is_extra)
    prices: Prices | None = None
