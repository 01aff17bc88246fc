"""What a proposer is told: one general brief, what the search space admits, the domain's brief."""

from __future__ import annotations

import re
from importlib import resources

from attrs import frozen

from whale_core.keys import content_hash

_VERSION = re.compile(r"\(version (\d+)\)")


@frozen
class Instructions:
    """The whole text, the general brief's version, and the hash of the whole text."""

    text: str
    version: int
    hash: str


def instructions(space: str, brief: str) -> Instructions:
    """Return the instructions for a search: the package's general brief, ``space`` (what the search
    space admits, in words) and the domain's ``brief``."""
    general = (resources.files("whale_metaharness") / "briefs" / "general.md").read_text("utf-8")
    found = _VERSION.search(general)
    assert found is not None  # the file is part of this package
    text = f"{general}\n## What may change in this search\n\n{space}\n\n---\n\n{brief}"
    return Instructions(text, int(found[1]), content_hash(text))
