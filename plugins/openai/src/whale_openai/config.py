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
        sound = sound and value.isprintable()
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
    """What the provider takes, in USD per million tokens."""

    input: float = field(validator=ge(0.0))
    """Prompt tokens."""
    output: float = field(validator=ge(0.0))
    """Sampled tokens."""
    cached: float | None = None
    """Prompt tokens that the provider had kept (null: as ``input``)."""

    def usd(self, prompt_tokens: int, cached_tokens: int, sampled_tokens: int) -> float:
        """Return what a call costs; ``cached_tokens`` are part of ``prompt_tokens``."""
        cached = self.input if self.cached is None else self.cached
        fresh = prompt_tokens - cached_tokens
        total = fresh * self.input + cached_tokens * cached + sampled_tokens * self.output
        return total / 1e6


@frozen
class Config:
    """Which endpoint serves which model, and how it is asked."""

    base_url: str = field(default="https://api.openai.com/v1", validator=_is_url)
    """Where Chat Completions are served, without the last ``/chat/completions``."""
    model: str = ""
    """The model's name there."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key (empty: no key is needed)."""
    max_context: int = field(default=32768, validator=ge(2))
    """Tokens of the model's context."""
    concurrency: int = field(default=32, validator=ge(1))
    """Requests under way at once, at most."""
    timeout: float = field(default=300.0, validator=gt(0.0))
    """Seconds that one try of a request may take."""
    retries: int = field(default=4, validator=ge(0))
    """Further tries after rate limits, server errors and lost connections."""
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the provider calls the most tokens to sample."""
    send: tuple[str, ...] = field(
        default=("temperature", "top_p", "seed"), validator=deep_iterable(in_(SENDABLE))
    )
    """The decoding settings that the provider accepts."""
    logprobs: bool = False
    """Ask for log-probabilities."""
    extra: dict[str, Any] = field(factory=dict, validator=_is_extra)
    """More fields of every request."""
    prices: Prices | None = None
    """What the provider takes; without them a run's USD are unknown."""
