"""Settings of this package's plugins."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, in_

from whale_metaharness.spaces import SPACES


@frozen
class Config:
    """Settings of the search ``meta-harness``.

    ``candidates`` is the published M, asked for in each iteration. ``space`` names what a candidate
    may change. ``tie_breaks`` names the behaviour metrics that separate candidates of equal reward,
    larger first, in this order; None takes the domain's own. Longer sources than
    ``max_source_bytes`` are refused.
    """

    candidates: int = field(default=3, validator=ge(1))
    space: str = field(default="full", validator=in_(tuple(SPACES)))
    tie_breaks: tuple[str, ...] | None = None
    max_source_bytes: int = field(default=65_536, validator=ge(1))


@frozen
class MutationConfig:
    """The proposer ``mutation`` has no settings: its catalogue is the domain's."""
