"""What a check found, and what to do about it."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class State(StrEnum):
    """How a check came out. Only ``fail`` makes ``whale doctor`` fail."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@frozen
class Finding:
    """The outcome of one check: what was found and the remedy, each one line.

    A check leaves ``name`` and ``seconds`` to whoever called it.
    """

    state: State
    found: str
    fix: str = ""
    name: str = ""
    seconds: float = 0.0


def ok(found: str) -> Finding:
    """Return the finding of a check that passed."""
    return Finding(State.OK, found)


def warn(found: str, fix: str) -> Finding:
    """Return the finding of a check that passed, but not as well as it could."""
    return Finding(State.WARN, found, fix)


def fail(found: str, fix: str) -> Finding:
    """Return the finding of a check that failed, with its remedy."""
    return Finding(State.FAIL, found, fix)


def skipped(reason: str) -> Finding:
    """Return the finding of a check that has nothing to look at."""
    return Finding(State.SKIPPED, reason)
