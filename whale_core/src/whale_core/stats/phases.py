"""How long the phases of a run were in fact."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from attrs import frozen


@frozen
class PhaseLengths:
    """Realised lengths of one kind of phase: steps, or search iterations."""

    phases: int
    shortest: int
    median: float
    longest: int


def phase_lengths(lengths: Sequence[int]) -> PhaseLengths | None:
    """Summarise the lengths of phases of one kind; None where there is none."""
    if not lengths:
        return None
    return PhaseLengths(len(lengths), min(lengths), float(median(lengths)), max(lengths))
