"""Settings of this package's plugins."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt, in_

from whale_metaharness.spaces import SPACES


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

    recording: str = ""
    """What to replay: the name of a recording that the domain ships, or a folder."""


@frozen
class PolicyConfig:
    """Settings of the proposer ``policy``, an experiment."""

    max_tokens: int = field(default=512, validator=ge(1))
    """Tokens that the model may write for one candidate."""
    temperature: float = field(default=0.8, validator=gt(0))
    """Sampling temperature of proposals."""


@frozen
class ClaudeCodeConfig:
    """Settings of the proposer ``claude-code``."""

    program: str = "claude"
    """The command-line agent: a name looked up in PATH, or a path."""
    model: str = "claude-opus-4-5"
    """The model it works with; it must have a price below."""
    key_variable: str = "ANTHROPIC_API_KEY"
    """The environment variable that holds the API key. The agent never gets it."""
    upstream: str = "https://api.anthropic.com"
    """Where the proxy forwards to: the only place that the agent reaches."""
    deadline_seconds: float = field(default=2400.0, validator=gt(0))
    """Seconds for one session; then it and all it started are killed, what it wrote counts."""
    max_turns: int = field(default=200, validator=ge(1))
    """Turns of one session."""
    max_usd: float = field(default=20.0, validator=gt(0))
    """USD of one session; once that much is spent, the proxy answers no more."""
