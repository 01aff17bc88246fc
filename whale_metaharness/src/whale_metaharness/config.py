"""Settings of this package's plugins."""

from __future__ import annotations

import os
from typing import Annotated

from attrs import field, frozen
from attrs.validators import ge, gt, in_

from whale_core.chat_completions import is_base_url
from whale_core.config.paths import PathSetting
from whale_metaharness.spaces import SPACES


def _is_recording(text: str, path: str) -> bool:
    """Say whether a setting names a folder, and not a recording that a domain ships."""
    return bool(text) and os.path.isdir(path)


def _is_path(text: str, path: str) -> bool:
    """Say whether a program is named by its path, and not to be looked up."""
    return os.sep in text


@frozen
class Config:
    """Settings of the search ``meta-harness``."""

    candidates: int = field(default=3, validator=ge(1))
    """Candidates asked for in each iteration (the published M)."""
    space: str = field(default="full", validator=in_(tuple(SPACES)))
    """What a candidate may change."""
    tie_breaks: tuple[str, ...] | None = None
    """Behaviour metrics that separate candidates of equal reward, larger first, in this order; null
    takes the domain's own."""
    max_source_bytes: int = field(default=65_536, validator=ge(1))
    """Longer sources are refused."""
    reveal_references: bool = False
    """Show proposers the references of the shown examples too; traces that passed reveal theirs in
    any case."""


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


@frozen
class MessagePrices:
    """What a provider of the Messages API takes, in USD per million tokens."""

    input: float = field(default=5.0, validator=ge(0))
    """Prompt tokens."""
    output: float = field(default=25.0, validator=ge(0))
    """Sampled tokens, thinking included."""
    cached: float = field(default=0.5, validator=ge(0))
    """Prompt tokens read from the provider's cache."""
    cache_write: float = field(default=6.25, validator=ge(0))
    """Prompt tokens written into that cache."""


@frozen
class ClaudeCodeConfig:
    """Settings of the proposer ``claude-code``."""

    program: Annotated[str, PathSetting(_is_path)] = "claude"
    """The command-line agent: a name looked up in PATH, or a path."""
    model: str = "claude-opus-4-5"
    """The model it works with; ``prices`` are this one's."""
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
    prices: MessagePrices = field(factory=MessagePrices)
    """What the model costs."""
