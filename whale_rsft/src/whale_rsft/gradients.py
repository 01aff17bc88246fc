"""Loss and gradient of packed rows on a Hugging Face causal language model.

L = -sum(weight * log p(target)) / tokens, at temperature 1. Logits are made only where a trained
token is predicted. The gradient with respect to them is written down (softmax minus one-hot) rather
than recorded, a few positions at a time: no float32 copy of positions x vocabulary is ever held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from whale_rsft.packing import Pack
from whale_rsft.trainers import TokenLoss
from whale_rsft.tree_attention import attention_tree, tree_attention

POSITIONS_AT_ONCE = 64


@contextmanager
def gradients_into(
    parameters: Mapping[str, nn.Parameter], buffers: Mapping[str, Tensor]
) -> Iterator[None]:
    """Within this context a backward pass adds each parameter's gradient to its float32 buffer and
    frees it at once, so gradients of the served dtype never pile up over micro-batches."""

    def move(buffer: Tensor, parameter: Tensor) -> None:
        assert parameter.grad is not None
        buffer.add_(parameter.grad)
        parameter.grad = None

    wanted = {name: parameter.requires_grad for name, parameter in parameters.items()}
    hooks = []
    try:
        for name, parameter in parameters.items():
            parameter.requires_grad_(True)
            hook = partial(move, buffers[name])
            hooks.append(parameter.register_post_accumulate_grad_hook(hook))  # type: ignore[no-untyped-call]
        with torch.enable_grad():
            yield
    finally:
        for hook_handle in hooks:
            hook_handle.remove()
        for name, parameter in parameters.items():
            parameter.grad = None
            parameter.requires_grad_(wanted[name])


def backward(module: nn.Module, packs: Iterable[Pack], tokens: int) -> TokenLoss:
    """Run forward and backward over ``packs``; the loss is divided by ``tokens``.

    Raises:
        InputError: the model's attention is not plain full attention.
    """
    with tree_attention(module):
        return sum((_backward(module, pack, tokens) for pack in packs), TokenLoss())


def _backward(module: nn.Module, pack: Pack, tokens: int) -> TokenLoss:
    device = next(module.parameters()).device

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device)

    logits = module(
        input_ids=tensor(pack.input_ids)[None],
        position_ids=tensor(pack.positions)[None],
        tree=attention_tree(pack, device),
        logits_to_keep=tensor(pack.sources),
        use_cache=False,
    ).logits[0]
    gradient, loss = _loss_gradient(
        logits.detach(),
        tensor(pack.target_sources),
        tensor(pack.target_ids),
        tensor(pack.weights),
        tensor(pack.logprobs),
        tokens,
    )
    logits.backward(gradient)
    return loss


def _loss_gradient(
    logits: Tensor, sources: Tensor, targets: Tensor, weights: Tensor, sampled: Tensor, tokens: int
) -> tuple[Tensor, TokenLoss]:
    """Return dL/dlogits ``[K, V]`` and the loss sums.

    ``logits`` are ``[K, V]``; ``sources`` (ascending), ``targets``, ``weights`` and ``sampled`` are
    ``[N]``. No (source, target) pair occurs twice.
    """
    gradient = torch.empty_like(logits)
    loss = TokenLoss()
    for start in range(0, len(logits), POSITIONS_AT_ONCE):
        chosen = (sources >= start) & (sources < start + POSITIONS_AT_ONCE)
        at, target, weight = sources[chosen] - start, targets[chosen], weights[chosen]
        logp = torch.log_softmax(logits[start : start + POSITIONS_AT_ONCE].float(), dim=-1)
        picked = logp[at, target]
        gap = (picked - sampled[chosen]).abs()
        loss += TokenLoss(-float(weight @ picked), float(weight @ gap))

        total_weight = weight.new_zeros(len(logp)).index_add_(0, at, weight)
        chunk = logp.exp_().mul_(total_weight[:, None])
        chunk[at, target] -= weight
        gradient[start : start + POSITIONS_AT_ONCE] = chunk.div_(tokens)
    return gradient, loss
