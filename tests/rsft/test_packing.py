"""Packed rows are the rows: same tokens seen, same loss, same gradient."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rsft_kit import VOCABULARY, row, tiny_llama

from whale_core.errors import InputError
from whale_core.records import Row
from whale_rsft import tree_attention
from whale_rsft.gradients import backward, gradients_into
from whale_rsft.packing import Pack, pack_rows
from whale_rsft.trainers import TokenLoss

HOLES = row([1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 1, 0, 0, 1, 1, 0])
CASES = {
    "one row": [row([1, 2, 3, 4], [0, 0, 1, 1])],
    "holes and an untrained end": [HOLES],
    "shared prompt": [row([9, 8, 7, *tail], [0, 0, 0, 1, 1]) for tail in ([1, 2], [1, 3], [4, 2])],
    "nothing in common": [row([1, 2, 3], [0, 1, 1]), row([4, 5, 6, 7], [0, 0, 0, 1])],
    "duplicates count twice": [HOLES, HOLES, row([5, 6, 7], [0, 1, 1])],
    "same tokens, other masks": [
        row([3, 1, 4, 1, 5], m) for m in ([0, 1, 1, 0, 1], [0, 0, 0, 1, 1])
    ],
    "one ends inside another": [row([3, 1, 4], [0, 0, 1]), row([3, 1, 4, 1, 5], [0, 0, 1, 0, 1])],
    "nested branches": [
        row([9, 9, *tail], [0, 0] + [1] * len(tail))
        for tail in ([1, 2, 3, 4], [1, 2, 5], [1, 6, 3, 4], [7], [1, 2, 3])
    ],
}

small_rows = st.lists(
    st.integers(2, 7).flatmap(
        lambda n: st.builds(
            row,
            st.lists(st.integers(0, 2), min_size=n, max_size=n),
            st.lists(st.integers(0, 1), min_size=n - 1, max_size=n - 1).map(lambda m: [0, *m]),
        )
    ),
    max_size=8,
)


def seen(pack: Pack, position: int) -> list[int]:
    """The tokens a packed token attends to, itself last."""
    return [int(pack.input_ids[k]) for k in range(position + 1) if position < pack.ends[k]]


def trained(packs: list[Pack]) -> list[tuple[tuple[int, ...], int]]:
    """Every trained (context, token) of the packs, as often as its weight says."""
    result = []
    for pack in packs:
        for i, token in enumerate(pack.target_ids.tolist()):
            context = tuple(seen(pack, int(pack.sources[pack.target_sources[i]])))
            result += [(context, token)] * int(pack.weights[i])
    return sorted(result)


@given(small_rows, st.integers(0, 20))
@settings(max_examples=200, deadline=None)
def test_every_trained_token_keeps_its_context_and_count(rows: list[Row], budget: int) -> None:
    expected = [
        (tuple(r.input_ids[:t].tolist()), int(r.input_ids[t]))
        for r in rows
        for t in np.flatnonzero(r.loss_mask)
    ]
    packs = pack_rows(rows, budget)
    assert trained(packs) == sorted(expected)
    for pack in packs:
        for i, position in enumerate(pack.positions.tolist()):
            assert len(seen(pack, i)) == position + 1
        assert len(pack.input_ids) <= max(budget, max(len(r.input_ids) for r in rows) - 1)


@given(small_rows.filter(lambda rows: len(rows) > 1), st.integers(0, 20), st.randoms())
@settings(max_examples=50, deadline=None)
def test_the_order_of_rows_does_not_matter(rows: list[Row], budget: int, random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for left, right in zip(pack_rows(rows, budget), pack_rows(shuffled, budget), strict=True):
        for name in ("input_ids", "positions", "ends", "sources", "target_ids", "weights"):
            assert np.array_equal(getattr(left, name), getattr(right, name))


@given(small_rows, st.sampled_from([0, 3, 4096]))
@settings(max_examples=100, deadline=None)
def test_blocks_see_what_the_tree_says(rows: list[Row], block_cost: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_attention, "BLOCK_COST", block_cost)
        for pack in pack_rows(rows, 100):
            tree = tree_attention.attention_tree(pack, torch.device("cpu"))
            order = torch.arange(len(pack.input_ids))
            parts = torch.split(order, tree.part_sizes)
            queries = torch.split(order, tree.query_sizes)
            for block, mine in zip(tree.blocks, queries, strict=True):
                keys = torch.cat([parts[i] for i in block.parts])
                for query, mask in zip(mine.tolist(), block.mask, strict=True):
                    attended = [int(pack.input_ids[k]) for k in keys[mask]]
                    assert attended == seen(pack, query)


def test_blocks_save_query_key_pairs() -> None:
    prompts = [[*range(32), *range(32 + i, 60 + i), *[i] * 200] for i in range(3)]
    rows = [row([*prompt, i, 63], [0] * 260 + [1, 1]) for prompt in prompts for i in range(2)]
    [pack] = pack_rows(rows, 2000)
    tree = tree_attention.attention_tree(pack, torch.device("cpu"))
    assert len(tree.blocks) == 3
    assert sum(block.mask.numel() for block in tree.blocks) < len(pack.input_ids) ** 2 / 2


def test_models_without_plain_attention_are_refused() -> None:
    model = tiny_llama()
    model.model.layers[0].self_attn.forward = partial(
        model.model.layers[0].self_attn.forward, sliding_window=8
    )
    with pytest.raises(InputError, match="sliding window"):
        backward(model, pack_rows(CASES["one row"], 100), 2)
    assert model.config._attn_implementation == "sdpa"
    model._supports_attention_backend = False
    with pytest.raises(ValueError, match="LlamaForCausalLM takes one row at a time"):
        backward(model, pack_rows(CASES["shared prompt"], 100), 2)


def test_a_shared_prefix_is_computed_once() -> None:
    rows = [row([*range(30), i, i + 1, i + 2], [0] * 30 + [1] * 3) for i in range(40, 44)]
    assert [len(pack.input_ids) for pack in pack_rows(rows, 100)] == [30 + 4 * 2]
    assert [len(pack.input_ids) for pack in pack_rows(rows, 35)] == [34, 34]
    assert [len(pack.input_ids) for pack in pack_rows(rows, 0)] == [32] * 4


def test_a_row_that_starts_with_a_sampled_token_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt is missing"):
        pack_rows([row([1, 2], [1, 1])], 10)


def naive(rows: list[Row], tied: bool) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients the plain way: one row at a time, all logits, autograd."""
    model = tiny_llama(tied=tied).requires_grad_(True)
    tokens = sum(int(r.loss_mask.sum()) for r in rows)
    total = 0.0
    for r in rows:
        ids = torch.tensor(r.input_ids, dtype=torch.long)
        logp = torch.log_softmax(model(input_ids=ids[None]).logits[0, :-1], -1)
        picked = logp[torch.arange(len(ids) - 1), ids[1:]]
        loss = -(picked * torch.tensor(r.loss_mask[1:])).sum() / tokens
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    return total, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def packed(rows: list[Row], budget: int, tied: bool) -> tuple[TokenLoss, dict[str, torch.Tensor]]:
    model = tiny_llama(tied=tied)
    parameters = dict(model.named_parameters())
    buffers = {name: torch.zeros_like(p) for name, p in parameters.items()}
    tokens = sum(int(r.loss_mask.sum()) for r in rows)
    with gradients_into(parameters, {name: each.add_ for name, each in buffers.items()}):
        loss = backward(model, pack_rows(rows, budget), tokens)
    assert not any(p.requires_grad or p.grad is not None for p in parameters.values())
    return loss, buffers


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("block_cost", [0, tree_attention.BLOCK_COST])
@pytest.mark.parametrize("budget", [0, 6, 100])
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_equal_the_naive_ones(
    case: str, budget: int, block_cost: int, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_attention, "BLOCK_COST", block_cost)
    rows = CASES[case]
    loss, gradients = naive(rows, tied)
    ours, buffers = packed(rows, budget, tied)
    assert ours.nll / sum(int(r.loss_mask.sum()) for r in rows) == pytest.approx(loss, rel=1e-5)
    assert buffers.keys() == gradients.keys()
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(buffers[name], gradient, rtol=1e-4, atol=1e-5 * scale)


def test_many_positions_go_through_the_chunked_loss() -> None:
    draw = np.random.default_rng(0)
    rows = [row(draw.integers(0, VOCABULARY, 100).tolist(), [0] * 10 + [1] * 90) for _ in range(2)]
    loss, gradients = naive(rows, tied=True)
    ours, buffers = packed(rows, 300, tied=True)
    assert ours.nll / 180 == pytest.approx(loss, rel=1e-5)
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(buffers[name], gradient, rtol=1e-4, atol=1e-5 * scale)


def test_results_are_bit_identical_when_repeated_in_another_order() -> None:
    rows = CASES["nested branches"]
    first, gradients = packed(rows, 6, tied=True)
    again, repeated = packed(rows[::-1], 6, tied=True)
    assert first == again
    assert all(torch.equal(gradients[name], repeated[name]) for name in gradients)
