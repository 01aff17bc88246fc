"""The settings of the verifier ``llm-judge``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import field, frozen
from attrs.validators import ge, gt

from whale_core.chat_completions import Prices, has_none_of, is_base_url
from whale_core.config.paths import PathSetting

# What the judge itself decides; another value would make verdicts or accounts wrong.
OWN_FIELDS = (
    "model",
    "messages",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "stop",
    "stream",
    "tools",
)


@frozen
class JudgeConfig:
    """Which model judges, and what happens when it does not answer."""

    base_url: str = field(default="https://api.openai.com/v1", validator=is_base_url)
    """Where Chat Completions are served, without the last ``/chat/completions``."""
    model: str = ""
    """The judge's name there (published: gpt-5.4-mini)."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key (empty: no key is needed)."""
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_completion_tokens"
    """What the provider calls the most tokens to sample."""
    max_tokens: int = field(default=256, validator=ge(1))
    """Tokens that the judge may sample for one verdict, reasoning included."""
    extra: dict[str, Any] = field(factory=dict, validator=has_none_of(OWN_FIELDS, "judge"))
    """More fields of every request."""
    concurrency: int = field(default=64, validator=ge(1))
    """Questions put to the judge at once, at most."""
    retries: int = field(default=3, validator=ge(0))
    """Further tries after rate limits, server errors, lost connections and malformed verdicts."""
    deadline: float = field(default=120.0, validator=gt(0.0))
    """Seconds for one verdict, all tries and the waits between them together."""
    fallback: Literal["", "em"] = ""
    """What decides where the judge fails: nothing (not scored), or exact match (flagged)."""
    prices: Prices | None = None
    """What the provider takes; without them the judge's USD are unknown."""
    cache: Annotated[str, PathSetting()] = ""
    """File of verdicts that were bought (empty: searchqa/verdicts.jsonl in the cache folder)."""
