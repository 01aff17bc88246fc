"""Gradient checkpointing: keep a layer's input alone, and compute the layer again when needed
(Chen et al. 2016, arXiv:1604.06174). Loss and gradient stay what they are, bit for bit, where
kernels are deterministic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from whale_core.errors import InputError


@contextmanager
def checkpointed(module: nn.Module) -> Iterator[None]:
    """Within this context the layers of ``module`` are checkpointed.

    The switch of ``transformers`` works in training mode only, which also turns on dropout.

    Raises:
        InputError: the model has no layers that can be.
    """
    layers = checkpointable(module)
    for layer in layers:
        layer.forward = partial(
            checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False
        )
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def checkpointable(module: nn.Module) -> list[nn.Module]:
    """Return the layers of ``module`` that ``checkpointed`` works on.

    Raises:
        InputError: there are none.
    """
    layers: list[nn.Module] = [
        each for each in module.modules() if isinstance(each, GradientCheckpointingLayer)
    ]
    if not layers:
        raise InputError(
            f"model_update.gradient_checkpointing: {type(module).__name__} has no layers that can "
            "be checkpointed; leave it out"
        )
    return layers
