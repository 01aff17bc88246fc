"""Settings of the rollout engine `openai`."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import deep_iterable, ge, gt, in_

from whale_core.chat_completions import Prices, has_none_of, is_base_url
from whale_core.config.later import LATER

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
    "return_token_ids",
    *SENDABLE,
)


@frozen
class Config:
    """Which endpoint serves which model, and how it is asked."""

    base_url: str = field(default="https://api.openai.com/v1", validator=is_base_url)
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
    token_ids: bool = field(default=False, metadata=LATER)
    """Ask for token ids (`return_token_ids`, a field of vLLM's) and log-probabilities, so that
    rollouts make training rows. An endpoint that tells none is refused."""
    requests_per_minute: float = field(default=0.0, validator=ge(0.0), metadata=LATER)
    """Requests begun in a minute, at most, further tries included (0: no limit)."""
    extra: dict[str, Any] = field(factory=dict, validator=has_none_of(OWN_FIELDS, "engine"))
    """More fields of every request."""
    prices: Prices | None = None
    """What the provider takes; without them a run's USD are unknown."""
