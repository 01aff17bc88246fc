"""The settings of the schedulers.

Iterations count the evaluation of the incoming harness, so 6 iterations are 5 proposal rounds and 1
would propose nothing.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen
from attrs.validators import ge, gt


@frozen
class FixedConfig:
    """``epochs`` of weights, then ``iterations`` of search, until ``total_epochs`` are trained."""

    needs: ClassVar[tuple[str, ...]] = ("model_update", "harness_search")

    epochs: float = field(default=0.2, validator=gt(0.0))
    """Epochs of weights in each cycle."""
    iterations: int = field(default=6, validator=ge(2))
    """Iterations of search in each cycle, the evaluation of the incoming harness counted."""
    total_epochs: float = field(default=1.0, validator=gt(0.0))
    """Epochs of weights in the whole run."""


@frozen
class WeightOnlyConfig:
    """``epochs`` of weights in one phase."""

    needs: ClassVar[tuple[str, ...]] = ("model_update",)

    epochs: float = field(default=1.0, validator=gt(0.0))
    """Epochs of weights."""


@frozen
class HarnessOnlyConfig:
    """``iterations`` of search in one phase."""

    needs: ClassVar[tuple[str, ...]] = ("harness_search",)

    iterations: int = field(default=6, validator=ge(2))
    """Iterations of search, the evaluation of the incoming harness counted."""
