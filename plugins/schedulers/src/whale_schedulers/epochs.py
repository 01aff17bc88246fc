"""From epochs, a fraction of the data, to weight steps, a whole number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction


def exact(number: float) -> Fraction:
    """Return the decimal fraction that was written: 0.1 is one tenth, not the float nearest it."""
    return Fraction(repr(number))


def whole_steps(epochs: Fraction, steps_per_epoch: int) -> int:
    """Return the steps that ``epochs`` make, rounded to the nearest (halves up)."""
    return math.floor(epochs * steps_per_epoch + Fraction(1, 2))


def at_least_one_step(epochs: float, steps_per_epoch: int) -> int:
    """Return the steps of one phase or span of ``epochs``."""
    return max(1, whole_steps(exact(epochs), steps_per_epoch))


def phase_lengths(epochs: float, total_epochs: float, steps_per_epoch: int) -> Iterator[int]:
    """Divide ``total_epochs`` into phases of ``epochs``; yield the weight steps of each.

    Rounding is cumulative: phase k (from 1) ends at step ``round(k · epochs · steps_per_epoch)``,
    so that the phases together do not drift from the total. The last one may be shorter. Every
    phase has at least one step.
    """
    each, total = exact(epochs), exact(total_epochs)
    done = number = 0
    while number * each < total:
        number += 1
        end = max(done + 1, whole_steps(min(number * each, total), steps_per_epoch))
        yield end - done
        done = end
