"""Settings of this package's plugins."""

from __future__ import annotations

import os
from typing import Annotated

from attrs import field, frozen
from attrs.validators import ge, gt, in_

from whale_core.config.paths import PathSetting
from whale_metaharness.spaces import NAMES


def _is_recording(text: str, path: str) -> bool:
    """Say whether a setting names a folder, and not a recording that a domain ships."""
    return bool(text) and os.path.isdir(path)


@frozen
class Config:
    """Settings of the search ``meta-harness``."""

    candidates: int = field(default=3, validator=ge(1))
    """Candidates asked for in each iteration (the published M)."""
    space: str = field(default="full", validator=in_(NAMES))
    """What a candidate may change: everything, the text of prompts alone (`prompt-only`), or the
    `members` that the next setting lists."""
    members: tuple[str, ...] = ()
    """Members of `class Harness`, methods or constants, that may change where `space` is
    `members`."""
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
class PolicyConfig:
    """Settings of the proposer ``policy``, an experiment."""

    max_tokens: int = field(default=512, validator=ge(1))
    """Tokens that the model may write for one candidate."""
    temperature: float = field(default=0.8, validator=gt(0))
    """Sampling temperature of proposals."""
