"""Settings of ``rsft``."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt, le, lt


@frozen
class Config:
    """Settings of ``rsft``; the defaults are for a 135M model on a CPU, not the paper's."""

    prompts: int = field(default=24, validator=ge(1))  # prompt batch: one weight step
    group_size: int = field(default=8, validator=ge(1))  # rollouts of each prompt
    accept_above: float = field(default=0.5, validator=[ge(0.0), lt(1.0)])  # strictly above
    min_accepted: int = field(default=4, validator=ge(1))  # fewer wait for the phase's next step
    minibatch: int = field(default=64, validator=ge(1))  # accepted trajectories, one update each
    micro_tokens: int = field(default=512, validator=ge(1))  # packed tokens computed at once
    lr: float = field(default=3e-5, validator=ge(0.0))  # constant
    beta1: float = field(default=0.9, validator=[ge(0.0), lt(1.0)])
    beta2: float = field(default=0.95, validator=[ge(0.0), lt(1.0)])
    weight_decay: float = field(default=0.0, validator=[ge(0.0), le(1.0)])
    clip: float = field(default=1.0, validator=gt(0.0))  # largest gradient norm
