"""The settings of ``clipped-pg``."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt, lt


@frozen
class Config:
    """A step rolls out ``group_size`` draws of ``prompts`` prompts and makes ``passes`` updates."""

    prompts: int = field(default=8, validator=ge(1))
    group_size: int = field(default=8, validator=ge(2))  # one rollout has nothing to compare with
    passes: int = field(default=2, validator=ge(1))
    lr: float = field(default=1e-5, validator=gt(0.0))
    clip_low: float = field(default=0.2, validator=[gt(0.0), lt(1.0)])
    clip_high: float = field(default=0.2, validator=gt(0.0))
    max_norm: float = field(default=1.0, validator=gt(0.0))  # of the gradient
