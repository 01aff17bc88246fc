"""What the actors need to know, as they get it from the trainer."""

from __future__ import annotations

from attrs import frozen

from whale_rsft.config import Config


@frozen
class Options:
    """Settings of the actors' optimizer and of how the model is spread over them."""

    zero: int  # ZeRO stage: 1 optimizer state, 2 gradients too, 3 parameters too
    lr: float
    beta1: float
    beta2: float
    weight_decay: float
    clip: float
    gradient_checkpointing: bool
    seed: int

    @classmethod
    def of(cls, config: Config, zero: int, seed: int) -> Options:
        """Return what ``config`` says."""
        return cls(
            zero=zero,
            lr=config.lr,
            beta1=config.beta1,
            beta2=config.beta2,
            weight_decay=config.weight_decay,
            clip=config.clip,
            gradient_checkpointing=config.gradient_checkpointing,
            seed=seed,
        )


@frozen
class Step:
    """What one rank reports of an update."""

    nll: float  # over its own tokens, each times its weight
    gap: float
    grad_norm: float  # of the whole update, before clipping; NaN: it was refused
    changed: int  # served values of this rank's part that the update changed
    values: int  # of this rank's part
