"""What an installed distribution says it needs, read from its metadata."""

from __future__ import annotations

from collections.abc import Sequence
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


def install_command(requirements: Sequence[str]) -> str:
    """Return the pip command for all of ``requirements``; nothing if they are all installed."""
    if not any(map(_is_absent, requirements)):
        return ""
    quoted = " ".join(f"'{each}'" for each in requirements)
    return f"pip install {quoted}"


def _is_absent(text: str) -> bool:
    """Say whether a distribution, or one that an extra of it brings, is not installed."""
    wanted = Requirement(text)
    try:
        requires = metadata.requires(wanted.name) or []
    except metadata.PackageNotFoundError:
        return True
    for each in map(Requirement, requires):
        if each.marker and any(applies(each, extra) for extra in wanted.extras):
            try:
                metadata.distribution(each.name)
            except metadata.PackageNotFoundError:
                return True
    return False
