"""The settings of the verifier ``llm-judge``."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt

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


def _is_url(instance: object, attribute: Attribute[str], value: str) -> None:
    try:
        parts = urlsplit(value)
        more = parts.username or parts.password or parts.query or parts.fragment
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and not more
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
        raise ValueError(f"'extra' cannot set {', '.join(own)}: the judge does")


@frozen
class Prices:
    """What the judge's provider takes, in USD per million tokens."""

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
class JudgeConfig:
    """Which model judges, and what happens when it does not answer."""

    base_url: str = field(default="https://api.openai.com/v1", validator=_is_url)
    """Where Chat Completions are served, without the last ``/chat/completions``."""
    model: str = ""
    """The judge's name there (published: gpt-5.4-mini)."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key (empty: no key is needed)."""
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_completion_tokens"
    """What the provider calls the most tokens to sample."""
    max_tokens: int = field(default=256, validator=ge(1))
    """Tokens that the judge may sample for one verdict, reasoning included."""
    extra: dict[str, Any] = field(factory=dict, validator=_is_extra)
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
