"""Every loss and way of computing gives the gradients of a plain float32 reference.

The reference forms each loss from its definition, row by row, with all logits and autograd.
Tolerances: losses within 1e-5, gradients within 1e-5 of the largest (relative 1e-4).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
import torch
from attrs import evolve
from rsft_kit import VOCABULARY, LendingEngine, row, tiny_hybrid, tiny_llama

from whale_core.errors import InputError
from whale_core.records import Row
from whale_rsft.config import LOSSES, Config
from whale_rsft.gradients import backward, check_head, gradients_into, shares_prefixes
from whale_rsft.losses import row_weights
from whale_rsft.packing import pack_rows
from whale_rsft.torch_trainer import TorchTrainer
from whale_rsft.trainers import TokenLoss

MODELS: dict[str, Callable[[], Any]] = {"llama": tiny_llama, "hybrid": tiny_hybrid}
RANKS = 3
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "checkpointed": {"checkpoint": True},
    "logits in parts": {"logits_at_once": 2},
    "both": {"checkpoint": True, "logits_at_once": 3},
}
Gradients = dict[str, torch.Tensor]


def uneven() -> list[Row]:
    """Four trajectories, one of two rows, of 3 to 20 tokens; masks with holes; a shared prompt."""
    draw = np.random.default_rng(3)
    prompt = draw.integers(0, VOCABULARY, 5).tolist()
    shape = [(0, 4), (1, 15), (1, 7), (2, 1), (3, 9)]  # trajectory, tokens after the prompt
    rows = []
    for trajectory, length in shape:
        mask = [1] * length if length < 7 else [*draw.integers(0, 2, length - 1), 1]
        ids = [*prompt, *draw.integers(0, VOCABULARY, length)]
        rows.append(row(ids, [0] * 5 + mask, trajectory))
    return rows


def reference(model: Any, rows: list[Row], loss: str) -> torch.Tensor:
    """The loss by its definition, over lists of the log-probabilities of trained tokens."""
    by_trajectory: dict[int, list[torch.Tensor]] = {}
    for r in rows:
        ids = torch.tensor(r.input_ids, dtype=torch.long)
        logp = torch.log_softmax(model(input_ids=ids[None]).logits[0], -1)
        trained = [logp[t - 1, ids[t]] for t in np.flatnonzero(r.loss_mask).tolist()]
        by_trajectory.setdefault(r.trajectory, []).extend(trained)
    each = [by_trajectory[number] for number in sorted(by_trajectory)]
    if loss == "token-mean":
        return -torch.stack([p for tokens in each for p in tokens]).mean()
    if loss == "seq-mean-token-mean":
        return -torch.stack([torch.stack(tokens).mean() for tokens in each]).mean()
    # four trajectories on three ranks: two, two, and a rank that has none but counts
    assert len(each) == 4
    shares = [each[0] + each[1], each[2] + each[3]]
    return -(torch.stack(shares[0]).mean() + torch.stack(shares[1]).mean() + 0.0) / RANKS


def expected(make: Callable[[], Any], rows: list[Row], loss: str) -> tuple[float, Gradients]:
    model = make().requires_grad_(True)
    total = reference(model, rows, loss)
    total.backward()  # type: ignore[no-untyped-call]
    return total.item(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def ours(
    model: Any, rows: list[Row], loss: str, budget: int, **way: Any
) -> tuple[TokenLoss, float, Gradients]:
    parameters = dict(model.named_parameters())
    buffers = {name: torch.zeros_like(p) for name, p in parameters.items()}
    weights, divisor = row_weights(rows, loss, RANKS)
    packs = pack_rows(rows, budget if shares_prefixes(model) else 0, weights)
    assert len(packs) >= 3, "the case must have several micro-batches"
    assert len({len(pack.input_ids) for pack in packs}) > 1, "of uneven sizes"
    with gradients_into(parameters, {name: each.add_ for name, each in buffers.items()}):
        found = backward(model, packs, divisor, **way)
    return found, divisor, buffers


@pytest.mark.parametrize(
    ("model", "loss", "way"),
    [
        *product(["llama"], LOSSES, WAYS),
        ("hybrid", "token-mean", "plain"),
        ("hybrid", "seq-mean-token-mean", "both"),
        ("hybrid", "rank-local", "logits in parts"),
    ],
)
def test_loss_and_gradient_equal_the_reference(model: str, loss: str, way: str) -> None:
    rows = uneven()
    value, gradients = expected(MODELS[model], rows, loss)
    found, divisor, buffers = ours(MODELS[model](), rows, loss, 9, **WAYS[way])
    assert found.nll / divisor == pytest.approx(value, rel=1e-5)
    assert buffers.keys() == gradients.keys()
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(buffers[name], gradient, rtol=1e-4, atol=1e-5 * scale)


def test_the_losses_differ() -> None:
    values = {loss: expected(tiny_llama, uneven(), loss)[0] for loss in LOSSES}
    assert len({round(value, 3) for value in values.values()}) == len(LOSSES)


def test_the_token_mean_weighs_every_token_alike() -> None:
    """The weights that the default has always had: whole numbers, and the tokens as divisor."""
    rows = [*uneven(), uneven()[0]]
    weights, divisor = row_weights(rows, "token-mean", RANKS)
    assert weights == [1.0] * len(rows)
    assert divisor == sum(int(r.loss_mask.sum()) for r in rows)
    for left, right in zip(pack_rows(rows, 9), pack_rows(rows, 9, weights), strict=True):
        assert left.weights.tobytes() == right.weights.tobytes()
        assert all(weight.is_integer() for weight in left.weights.tolist())


def test_a_trajectory_without_a_trained_token_does_not_count() -> None:
    idle = row([1, 2, 3], [0, 0, 0], 1)
    rows = [row([1, 2, 3], [0, 1, 1], 0), idle, row([1, 2], [0, 1], 2), row([4, 5], [0, 1], 2)]
    for loss, weights, divisor in (
        ("token-mean", [1.0, 1.0, 1.0], 4),
        ("seq-mean-token-mean", [0.5, 0.5, 0.5], 2),
        ("rank-local", [0.5, 0.5, 0.5], RANKS),
    ):
        found, by = row_weights(rows, loss, RANKS)
        assert [found[0], *found[2:]] == weights
        assert by == divisor
    assert row_weights(rows, "rank-local", 1) == ([0.25, 0.0, 0.25, 0.25], 1)


@pytest.mark.parametrize("model", MODELS)
def test_checkpointing_changes_no_bit(model: str) -> None:
    first, _, plain = ours(MODELS[model](), uneven(), "token-mean", 9)
    again, _, checkpointed = ours(MODELS[model](), uneven(), "token-mean", 9, checkpoint=True)
    assert first == again
    assert all(torch.equal(plain[name], checkpointed[name]) for name in plain)


def test_checkpointing_computes_layers_twice_and_leaves_the_module_as_it_was() -> None:
    calls: list[int] = []
    model = tiny_llama()
    first = model.model.layers[1].input_layernorm
    inner = first.register_forward_hook(lambda *_: calls.append(1))
    ours(model, uneven(), "token-mean", 9)
    once = len(calls)
    ours(model, uneven(), "token-mean", 9, checkpoint=True)
    assert len(calls) == 3 * once
    inner.remove()
    assert not any("forward" in vars(each) for each in model.modules())


def test_no_more_logits_are_held_than_asked_for() -> None:
    model = tiny_llama()
    sizes: list[int] = []
    hook = model.lm_head.register_forward_hook(lambda _, __, out: sizes.append(out.shape[-2]))
    ours(model, uneven(), "token-mean", 9, logits_at_once=2)
    hook.remove()
    assert max(sizes) == 2
    packs = pack_rows(uneven(), 9)
    assert sum(sizes) == sum(len(pack.sources) for pack in packs)


def test_rows_of_a_hybrid_do_not_meet() -> None:
    """Linear attention carries what a packed row left behind into the next one."""
    assert shares_prefixes(tiny_llama())
    assert not shares_prefixes(tiny_hybrid())
    with pytest.raises(ValueError, match="Qwen3_5ForCausalLM takes one row at a time"):
        backward(tiny_hybrid(), pack_rows(uneven(), 100), 1)


def test_logits_that_are_scaled_are_not_made_in_parts() -> None:
    model = tiny_llama()
    check_head(model)
    model.lm_head.register_forward_hook(lambda _, args, out: out)
    check_head(model)
    whole = model.forward
    model.forward = lambda **inputs: _scaled(whole(**inputs))  # type: ignore[method-assign]
    with pytest.raises(InputError, match="logits of LlamaForCausalLM are more"):
        check_head(model)


def _scaled(output: Any) -> Any:
    output.logits = output.logits * 0.5
    return output


@pytest.mark.parametrize(
    "settings",
    [{"loss": "rank-local", "ranks": 2}, {"gradient_checkpointing": True, "logits_at_once": 2}],
)
async def test_the_trainer_computes_as_it_is_told(settings: dict[str, Any]) -> None:
    """Its first update has the reference's gradient norm and loss."""
    config = evolve(Config(micro_tokens=9, lr=1e-3), **settings)
    [update] = (
        await TorchTrainer(config).train([uneven()], cast(Any, LendingEngine(tiny_llama())))
    ).updates
    weights, divisor = row_weights(uneven(), config.loss, config.ranks)
    model = tiny_llama().requires_grad_(True)
    total = torch.tensor(0.0)
    for r, weight in zip(uneven(), weights, strict=True):
        ids = torch.tensor(r.input_ids, dtype=torch.long)
        logp = torch.log_softmax(model(input_ids=ids[None]).logits[0, :-1], -1)
        picked = logp.gather(-1, ids[1:, None])[:, 0]
        total = total - weight * (picked * torch.tensor(r.loss_mask[1:])).sum() / divisor
    total.backward()  # type: ignore[no-untyped-call]
    assert update.loss.nll / update.divisor == pytest.approx(total.item(), rel=1e-5)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    assert update.grad_norm == pytest.approx(float(norm), rel=1e-4)
