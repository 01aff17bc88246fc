"""Forward passes whose every row is computed the same way whatever its neighbours are.

While the engine computes, the borrowed Hugging Face module is dressed up (``serving``): attention
goes to the engine's, linear layers multiply whole tiles of ``CHUNK`` rows, activations run over
short pieces. Outside, it is the plain module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from whale_core.errors import InputError
from whale_core.keys import generator
from whale_transformers.attention import Attention
from whale_transformers.kv import CHUNK
from whale_transformers.sampling import VOCABULARY_CHUNK

NAME = "whale"
TALLEST = 8 * CHUNK
PIECE = 16384  # elements: below torch's parallel grain, so that a pointwise kernel is never split


def _attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Hand one layer's attention to the ``Attention`` object of this forward pass."""
    state: Attention = kwargs["whale_attention"]
    for name in ("sliding_window", "softcap", "s_aux"):
        if kwargs.get(name) is not None:
            raise InputError(f"the model's attention uses {name}, which this engine does not have")
    layer: int = module.layer_idx  # type: ignore[assignment]
    return state.attend(layer, query[0], key[0], value[0], scaling)[None], None


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)


def tiled_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, height: int
) -> torch.Tensor:
    """Return ``x @ weight.T + bias`` for x ``[..., rows, columns]``, ``height`` rows at a time."""
    flat = x.reshape(-1, x.shape[-1])
    if len(flat) <= height:
        return functional.linear(flat, weight, bias).view(*x.shape[:-1], -1)
    out = flat.new_empty(len(flat), len(weight))
    transposed = weight.t()
    for source, target in zip(torch.split(flat, height), torch.split(out, height), strict=True):
        if bias is None:
            torch.mm(source, transposed, out=target)
        else:
            torch.addmm(bias, source, transposed, out=target)
    return out.view(*x.shape[:-1], -1)


def product_height(model: Any) -> int:
    """Return how many rows one matrix product may have: ``TALLEST`` or ``CHUNK``.

    Taller products are faster. They are used where this machine's kernels give every row the same
    bits at every height that can occur, in every place; that is tried here on each weight shape.
    """
    shapes = {
        (*module.weight.shape, module.bias is not None)
        for module in model.modules()
        if isinstance(module, nn.Linear)
    }
    like = next(model.parameters())
    for outputs, inputs, has_bias in sorted(shapes):
        outputs = min(outputs, VOCABULARY_CHUNK)
        numbers = generator("product-height", outputs, inputs).standard_normal(
            (TALLEST + outputs, inputs), dtype=np.float32
        )
        x = torch.from_numpy(numbers[:TALLEST]).to(like)
        weight = torch.from_numpy(numbers[TALLEST:]).to(like)
        bias = weight[:, 0].contiguous() if has_bias else None
        reference = tiled_linear(x, weight, bias, CHUNK)
        for height in range(CHUNK, TALLEST + 1, CHUNK):
            if not torch.equal(functional.linear(x[-height:], weight, bias), reference[-height:]):
                return CHUNK
    return TALLEST


def _pieces(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Apply a pointwise function piece by piece.

    Some of torch's vectorised kernels give other bits in the few elements after the last whole
    vector of a thread's share; pieces are not shared out, and whole vectors but for the last.
    """
    flat = x.reshape(-1)
    return torch.cat([function(piece) for piece in torch.split(flat, PIECE)]).view(x.shape)


@contextmanager
def serving(model: Any, height: int) -> Iterator[None]:
    """Dress ``model`` for the engine's forward passes, and undress it on leaving.

    ``height`` is that of ``product_height``.
    """
    before = model.config._attn_implementation
    dressed: list[nn.Module] = []
    for module in model.base_model.modules():
        if isinstance(module, nn.Linear):
            module.forward = partial(  # type: ignore[method-assign]
                tiled_linear, weight=module.weight, bias=module.bias, height=height
            )
        elif _is_activation(module):
            module.forward = partial(_pieces, module.forward)
        else:
            continue
        dressed.append(module)
    model.set_attn_implementation(NAME)
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)
        model.set_attn_implementation(before)
        for module in dressed:
            del module.forward


def _is_activation(module: nn.Module) -> bool:
    """Return whether ``module`` is a pointwise function without state."""
    return (
        next(module.children(), None) is None
        and next(module.parameters(), None) is None
        and next(module.buffers(), None) is None
        and not isinstance(module, nn.Identity | nn.Dropout)
    )


def hidden_states(
    model: Any, ids: torch.Tensor, positions: torch.Tensor, attention: Attention
) -> torch.Tensor:
    """Return the final hidden states ``[rows, hidden]`` of tokens ``ids [rows]``.

    ``rows`` is a multiple of ``CHUNK``; call within ``serving``.
    """
    output = model.base_model(
        input_ids=ids[None],
        position_ids=positions[None],
        use_cache=False,
        whale_attention=attention,
    )
    hidden: torch.Tensor = output.last_hidden_state[0]
    return hidden


def logits(model: Any, hidden: torch.Tensor, start: int, end: int, height: int) -> torch.Tensor:
    """Return the logits of vocabulary entries ``start`` to ``end``: ``[rows, end - start]``."""
    head = model.get_output_embeddings()
    bias = None if head.bias is None else head.bias[start:end]
    return tiled_linear(hidden, head.weight[start:end], bias, height)
