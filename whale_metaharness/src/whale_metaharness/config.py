"""Settings of this package's plugins."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, in_

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
    reveal_references: bool = False
    """Show proposers the references of the shown examples too; traces that passed reveal theirs in
    any case."""


@frozen
class MutationConfig:
    """The proposer ``mutation`` has no settings: its catalogue is the domain's."""
