"""Settings of the proposers."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from attrs import field, frozen
from attrs.validators import ge, gt

from whale_core.chat_completions import Prices, has_none_of, is_base_url
from whale_core.config.paths import PathSetting

# What the proposer itself decides; another value would break its loop or its accounts.
OWN_FIELDS = (
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "stream",
    "stream_options",
    "stop",
    "stop_sequences",
)


@frozen
class CachePrices(Prices):
    """What a provider takes that also asks for the tokens it keeps, in USD per million tokens."""

    cache_write: float | None = None
    """Prompt tokens that the provider keeps from then on (null: as ``input``)."""


@frozen
class SessionConfig:
    """What a session with a model may take."""

    model: str = ""
    """The model's name there."""
    max_tokens: int = field(default=16_384, validator=ge(16))
    """Tokens that the model may sample for one reply, reasoning included."""
    extra: dict[str, Any] = field(factory=dict, validator=has_none_of(OWN_FIELDS, "proposer"))
    """More fields of every request."""
    turns: int = field(default=60, validator=ge(1))
    """Replies in one session, at most."""
    repairs: int = field(default=2, validator=ge(0))
    """How often a session goes on after it handed in what a gate refuses, or nothing."""
    retries: int = field(default=4, validator=ge(0))
    """Further tries of a request after rate limits, server errors, lost connections and answers
    that cannot be read."""
    call_seconds: float = field(default=600.0, validator=gt(0.0))
    """Seconds that one try of a request may take."""
    session_seconds: float = field(default=3600.0, validator=gt(0.0))
    """Seconds after which a session asks no more."""
    iteration_tokens: int = field(default=4_000_000, validator=ge(0))
    """Prompt and sampled tokens after which a session asks no more (0: no such cap)."""
    iteration_usd: float = field(default=0.0, validator=ge(0.0))
    """USD after which a session asks no more (0: no such cap)."""
    run_tokens: int = field(default=0, validator=ge(0))
    """Prompt and sampled tokens of all sessions of the run, likewise."""
    run_usd: float = field(default=0.0, validator=ge(0.0))
    """USD of all sessions of the run, likewise."""


@frozen
class AnthropicConfig(SessionConfig):
    """Settings of the proposer ``anthropic`` (Messages API)."""

    base_url: str = field(default="https://api.anthropic.com", validator=is_base_url)
    """Where the Messages API is served, without ``/v1/messages``."""
    api_key_env: str = "ANTHROPIC_API_KEY"
    """The environment variable that holds the key (empty: no key is needed)."""
    stream: bool = True
    """Have replies sent piece by piece: long ones are not cut off by anything in between."""
    prices: CachePrices | None = None
    """What the provider takes (null: as ``prices.toml`` of this package has it for the model)."""


@frozen
class OpenAIConfig(SessionConfig):
    """Settings of the proposer ``openai`` (Chat Completions)."""

    base_url: str = field(default="https://api.openai.com/v1", validator=is_base_url)
    """Where Chat Completions are served, without the last ``/chat/completions``."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key (empty: no key is needed)."""
    stream: bool = False
    """Have replies sent piece by piece; the endpoint must then send its counts at the end."""
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_completion_tokens"
    """What the provider calls the most tokens to sample."""
    prices: Prices | None = None
    """What the provider takes; without them USD are unknown."""


def _is_path(text: str, path: str) -> bool:
    """Say whether a program is named by its path, and not to be looked up."""
    return os.sep in text


@frozen
class ClaudeCodeConfig:
    """Settings of the proposer ``claude-code``."""

    program: Annotated[str, PathSetting(_is_path)] = "claude"
    """The command-line agent: a name looked up in PATH, or a path."""
    model: str = "claude-opus-4-7"
    """The model that it works with, and no other."""
    api_key_env: str = "ANTHROPIC_API_KEY"
    """The environment variable that holds the API key. The agent never gets it."""
    base_url: str = field(default="https://api.anthropic.com", validator=is_base_url)
    """Where the proxy forwards to: the only place that the agent reaches."""
    turns: int = field(default=400, validator=ge(1))
    """Model calls of one session, at most; then the proxy answers no more."""
    session_seconds: float = field(default=2400.0, validator=gt(0.0))
    """Seconds for one session; then it and all it started are killed, and what it wrote counts."""
    iteration_usd: float = field(default=20.0, validator=ge(0.0))
    """USD after which the proxy answers a session no more (0: no such cap)."""
    run_usd: float = field(default=0.0, validator=ge(0.0))
    """USD of all sessions of the run, likewise."""
    prices: CachePrices | None = None
    """What the provider takes (null: as ``prices.toml`` of this package has it for the model)."""


def _is_recording(text: str, path: str) -> bool:
    """Say whether a setting names a folder, and not a recording that a domain ships."""
    return bool(text) and os.path.isdir(path)


@frozen
class MutationConfig:
    """The proposer ``mutation`` has no settings: its catalogue is the domain's."""


@frozen
class RandomConfig:
    """The proposer ``random`` has no settings: its catalogue is the domain's."""


@frozen
class SingleEditsConfig:
    """The proposer ``single-edits`` has no settings: its catalogue is the domain's."""


@frozen
class ReplayConfig:
    """Settings of the proposer ``replay``."""

    recording: Annotated[str, PathSetting(_is_recording)] = ""
    """What to replay: the name of a recording that the domain ships, or a folder."""


@frozen
class ManualConfig:
    """Settings of the proposer ``manual``."""

    session_seconds: float = field(default=3600.0, validator=gt(0.0))
    """Seconds that a run waits for ``outbox/done``; then what is there counts."""


@frozen
class PolicyConfig:
    """Settings of the proposer ``policy``, an experiment."""

    max_tokens: int = field(default=512, validator=ge(1))
    """Tokens that the model may write for one candidate."""
    temperature: float = field(default=0.8, validator=gt(0))
    """Sampling temperature of proposals."""
