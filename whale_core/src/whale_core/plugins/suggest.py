"""The nearest valid name, for messages about an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name that ``name`` probably meant, or None."""
    matches = get_close_matches(name, sorted(valid), n=1)
    return matches[0] if matches else None


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return ``", did you mean 'x'?"``, or what is valid if nothing is near."""
    names = sorted(valid)
    if match := nearest(name, names):
        return f", did you mean '{match}'?"
    return f" (valid: {', '.join(names)})" if names else " (there are none)"
