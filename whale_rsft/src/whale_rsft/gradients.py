"""Loss and gradient of packed rows on a Hugging Face causal language model.

L = -sum(weight * log p(target)) / divisor, at temperature 1 (``losses``). Logits are made only
where a trained token is predicted. The gradient with respect to them is written down (softmax minus
one-hot) rather than recorded, a few positions at a time: no float32 copy of positions x vocabulary
is ever held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch import Tensor, nn

from whale_core.errors import InputError
from whale_rsft.checkpointing import checkpointed
from whale_rsft.packing import Pack
from whale_rsft.trainers import TokenLoss
from whale_rsft.tree_attention import attention_tree, tree_attention

POSITIONS_AT_ONCE = 64  # in float32
HEAD_TOLERANCE = 1e-2  # of the largest logit


@frozen
class Targets:
    """What N packed positions are to predict, in order of ``sources``."""

    sources: Tensor  # [N] index of the position's logits
    ids: Tensor  # [N]
    weights: Tensor  # [N]
    logprobs: Tensor  # [N] at sampling

    def between(self, start: int, stop: int) -> Targets:
        """Return those with ``start <= source < stop``, counted from ``start``."""
        chosen = (self.sources >= start) & (self.sources < stop)
        return Targets(
            self.sources[chosen] - start,
            self.ids[chosen],
            self.weights[chosen],
            self.logprobs[chosen],
        )


@contextmanager
def gradients_into(
    parameters: Mapping[str, nn.Parameter], sinks: Mapping[str, Callable[[Tensor], object]]
) -> Iterator[None]:
    """Within this context a backward pass gives each parameter's gradient to its sink, which adds
    it up in float32, and frees it at once: gradients of the served dtype never pile up over
    micro-batches. A parameter without a sink gets no gradient."""

    def move(sink: Callable[[Tensor], object], parameter: Tensor) -> None:
        assert parameter.grad is not None
        sink(parameter.grad)
        parameter.grad = None

    wanted = {name: parameter.requires_grad for name, parameter in parameters.items()}
    hooks = []
    try:
        for name, parameter in parameters.items():
            parameter.requires_grad_(name in sinks)
            if name not in sinks:
                continue
            hook = partial(move, sinks[name])
            hooks.append(parameter.register_post_accumulate_grad_hook(hook))  # type: ignore[no-untyped-call]
        with torch.enable_grad():
            yield
    finally:
        for hook_handle in hooks:
            hook_handle.remove()
        for name, parameter in parameters.items():
            parameter.grad = None
            parameter.requires_grad_(wanted[name])


def backward(
    module: nn.Module,
    packs: Iterable[Pack],
    divisor: float,
    *,
    checkpoint: bool = False,
    logits_at_once: int = 0,
) -> TokenLoss:
    """Run forward and backward over ``packs``; the loss is divided by ``divisor``.

    ``checkpoint`` recomputes layers in the backward pass; ``logits_at_once`` is how many positions'
    logits are held at a time (0: those of a whole pack).

    Raises:
        InputError: the model's layers cannot be computed as asked.
        ValueError: packs of several rows for a model that does not share prefixes.
    """
    with ExitStack() as stack:
        shared = shares_prefixes(module)
        if shared:
            stack.enter_context(tree_attention(module))
        if checkpoint:
            stack.enter_context(checkpointed(module))
        losses = (_backward(module, pack, divisor, shared, logits_at_once) for pack in packs)
        return sum(losses, TokenLoss())


def shares_prefixes(module: Any) -> bool:
    """Return whether rows can be packed as a tree: tokens meet in plain full attention alone.

    For any other model (linear attention, a sliding window, …) each row is computed by itself.
    """
    config = module.config
    return (
        bool(getattr(module, "_supports_attention_backend", False))
        and all(kind == "full_attention" for kind in getattr(config, "layer_types", None) or ())
        and not (
            getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
        )
        and not getattr(config, "attn_logit_softcapping", None)
        and not any(isinstance(each, nn.Conv1d) for each in module.modules())
    )


def check_head(module: Any) -> None:
    """Check that logits are the output layer's, so that they can be made a few at a time.

    Raises:
        InputError: they are scaled or capped, say.
    """
    ids = torch.arange(4, device=next(module.parameters()).device)[None]
    with torch.no_grad():
        whole = module(input_ids=ids, use_cache=False).logits.float()
        hidden = module.base_model(input_ids=ids, use_cache=False).last_hidden_state
        parts = module.get_output_embeddings()(hidden).float()
    if not bool((whole - parts).abs().max() <= HEAD_TOLERANCE * whole.abs().max()):
        raise InputError(
            f"model_update.logits_at_once: the logits of {type(module).__name__} are more than its "
            "output layer's; leave it out"
        )


def _backward(
    module: Any, pack: Pack, divisor: float, shared: bool, logits_at_once: int
) -> TokenLoss:
    device = next(module.parameters()).device

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device)

    inputs: dict[str, Any] = {
        "input_ids": tensor(pack.input_ids)[None],
        "position_ids": tensor(pack.positions)[None],
        "use_cache": False,
    }
    if shared:
        inputs["tree"] = attention_tree(pack, device)
    elif not np.array_equal(pack.positions, np.arange(len(pack.positions))):
        raise ValueError(f"{type(module).__name__} takes one row at a time")
    sources = tensor(pack.sources)
    targets = Targets(
        tensor(pack.target_sources),
        tensor(pack.target_ids),
        tensor(pack.weights),
        tensor(pack.logprobs),
    )
    if not logits_at_once:
        logits = module(**inputs, logits_to_keep=sources).logits[0]
        return _backward_logits(logits, targets, divisor)
    hidden = module.base_model(**inputs).last_hidden_state[0, sources]
    head = module.get_output_embeddings()
    parts = [part.detach().requires_grad_() for part in torch.split(hidden, logits_at_once)]
    loss, start = TokenLoss(), 0
    for part in parts:
        stop = start + len(part)
        loss += _backward_logits(head(part), targets.between(start, stop), divisor)
        start = stop
    hidden.backward(torch.cat([part.grad for part in parts if part.grad is not None]))
    return loss


def _backward_logits(logits: Tensor, targets: Targets, divisor: float) -> TokenLoss:
    gradient, loss = _loss_gradient(logits.detach(), targets, divisor)
    logits.backward(gradient)  # type: ignore[no-untyped-call]
    return loss


def _loss_gradient(logits: Tensor, targets: Targets, divisor: float) -> tuple[Tensor, TokenLoss]:
    """Return dL/dlogits ``[K, V]`` of ``logits`` ``[K, V]``, and the loss sums.

    No (source, target) pair occurs twice.
    """
    gradient = torch.empty_like(logits)
    loss = TokenLoss()
    for start in range(0, len(logits), POSITIONS_AT_ONCE):
        some = targets.between(start, start + POSITIONS_AT_ONCE)
        logp = torch.log_softmax(logits[start : start + POSITIONS_AT_ONCE].float(), dim=-1)
        picked = logp[some.sources, some.ids]
        gap = (picked - some.logprobs).abs()
        loss += TokenLoss(-float(some.weights @ picked), float(some.weights @ gap))

        total_weight = some.weights.new_zeros(len(logp)).index_add_(0, some.sources, some.weights)
        chunk = logp.exp_().mul_(total_weight[:, None])
        chunk[some.sources, some.ids] -= some.weights
        gradient[start : start + POSITIONS_AT_ONCE] = chunk.div_(divisor)
    return gradient, loss
