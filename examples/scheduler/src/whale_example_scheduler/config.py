"""The settings of ``saturating``."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen
from attrs.validators import ge, gt, le


@frozen
class Config:
    """Weight phases of ``epochs`` at reward 0, never shorter than ``shortest`` of that."""

    needs: ClassVar[tuple[str, ...]] = ("model_update", "harness_search")

    epochs: float = field(default=0.2, validator=gt(0.0))
    shortest: float = field(default=0.25, validator=[gt(0.0), le(1.0)])
    iterations: int = field(default=6, validator=ge(2))
    total_epochs: float = field(default=1.0, validator=gt(0.0))
