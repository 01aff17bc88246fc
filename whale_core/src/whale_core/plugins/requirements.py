"""What an installed distribution says it needs, read from its metadata."""

from __future__ import annotations

from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement


def requirements_of(distribution: str) -> list[Requirement]:
    """Return all that ``distribution`` or one of its extras needs; nothing if it cannot be read."""
    try:
        return [Requirement(text) for text in metadata.requires(distribution) or ()]
    except (metadata.PackageNotFoundError, InvalidRequirement):
        return []


def applies(requirement: Requirement, extra: str = "") -> bool:
    """Say whether a requirement holds on this machine, for ``extra`` or (empty) always."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})
