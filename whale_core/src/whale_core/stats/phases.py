"""How long the phases of a run were in fact."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from attrs import frozen


@frozen
class PhaseLengths:
    """Realised lengths of one kind of phase, in ``unit`` (``epochs`` or ``iterations``)."""

    unit: str
    lengths: tuple[float, ...]
    median: float
    longest: float


def weight_phase_lengths(steps: Sequence[int], steps_per_epoch: float) -> PhaseLengths | None:
    """Return the lengths of weight phases in epochs, from their steps; None where there is none."""
    return _lengths("epochs", [each / steps_per_epoch for each in steps])


def harness_phase_lengths(iterations: Sequence[int]) -> PhaseLengths | None:
    """Return the lengths of harness phases in iterations; None where there is none."""
    return _lengths("iterations", [float(each) for each in iterations])


def _lengths(unit: str, lengths: list[float]) -> PhaseLengths | None:
    if not lengths:
        return None
    return PhaseLengths(unit, tuple(lengths), float(median(lengths)), max(lengths))
