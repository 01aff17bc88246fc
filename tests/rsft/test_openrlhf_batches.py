"""Which rows each rank computes: nothing lost or twice, the budget, equal counts, the weights."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rsft_kit import row

from whale_core.records import Row
from whale_rsft.openrlhf.batches import EMPTY, Share, shares

LOSSES = ["token-mean", "seq-mean-token-mean", "rank-local"]


def ragged(seed: int, count: int) -> list[Row]:
    """Rows of 3 to 40 tokens, masks with holes; every third trajectory has two rows."""
    draw = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        length = int(draw.integers(3, 41))
        mask = (draw.random(length) < 0.4).astype(np.uint8)
        mask[0] = 0
        mask[int(draw.integers(1, length))] = 1
        ids = draw.integers(1, 1000, length)
        one = row(ids.tolist(), mask.tolist(), trajectory=i - (i % 3 == 2))
        rows.append(
            Row(one.input_ids, one.loss_mask, -draw.random(length).astype("f4"), one.trajectory)
        )
    return rows


def trained(rows: list[Row]) -> list[tuple[tuple[int, ...], int, float]]:
    """(tokens before, token, sampling log-probability) of every trained token."""
    return sorted(
        (tuple(r.input_ids[:t].tolist()), int(r.input_ids[t]), float(r.logprobs[t]))
        for r in rows
        for t in np.flatnonzero(r.loss_mask)
    )


def computed(parts: list[Share]) -> list[tuple[tuple[int, ...], int, float]]:
    found = []
    for part in parts:
        for batch in part.micro_batches:
            for b, k in zip(*np.nonzero(batch.mask), strict=True):
                at = batch.positions[k]
                assert batch.attention_mask[b, : at + 1].all()
                before = tuple(batch.input_ids[b, : at + 1].tolist())
                found.append((before, int(batch.targets[b, k]), float(batch.logprobs[b, k])))
    return sorted(found)


@pytest.mark.parametrize("loss", LOSSES)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 20), ranks=st.integers(1, 4))
def test_every_trained_token_once_on_all_ranks_together(
    loss: str, seed: int, count: int, ranks: int
) -> None:
    rows = ragged(seed, count)
    parts = shares(rows, ranks, 64, loss)
    assert computed(parts) == trained(rows)
    assert len({len(part.micro_batches) for part in parts}) == 1
    for part in parts:
        for batch in part.micro_batches:
            alone = len(batch.input_ids) == 1
            assert alone or batch.input_ids.size <= 64
            assert (batch.weights[batch.mask == 0] == 0).all()


@pytest.mark.parametrize("loss", LOSSES[:2])
def test_the_order_of_rows_plays_no_part(loss: str) -> None:
    rows = ragged(3, 17)
    mixed = random.Random(1).sample(rows, len(rows))
    assert repr(shares(rows, 3, 64, loss)) == repr(shares(mixed, 3, 64, loss))


def test_work_is_shared_evenly() -> None:
    parts = shares(ragged(5, 60), 2, 64, "token-mean")
    first, second = (part.computed_tokens for part in parts)
    assert abs(first - second) <= 64


def test_a_rank_without_rows_gets_weightless_batches() -> None:
    first, second = shares([row([1, 2, 3], [0, 1, 1])], 2, 64, "token-mean")
    assert first.divisor == second.divisor == 2.0
    assert second.micro_batches == (EMPTY,)
    assert not EMPTY.weights.any()


def test_token_mean_divides_by_all_ranks_tokens() -> None:
    rows = ragged(7, 9)
    total = sum(int(r.loss_mask.sum()) for r in rows)
    for part in shares(rows, 2, 64, "token-mean"):
        assert (part.divisor, part.ranks) == (total, 2)
        assert all((b.weights == b.mask).all() for b in part.micro_batches)


def test_a_trajectory_weighs_one_over_all_its_rows() -> None:
    rows = [row([1, 2, 3, 4], [0, 1, 1, 1]), row([5, 6], [0, 1]), row([7, 8], [0, 1], trajectory=1)]
    parts = shares(rows, 2, 64, "seq-mean-token-mean")
    assert {part.divisor for part in parts} == {2.0}
    weights = sorted(w for p in parts for b in p.micro_batches for w in b.weights[b.mask > 0])
    assert weights == [0.25, 0.25, 0.25, 0.25, 1.0]


def test_rank_local_splits_trajectories_in_order_and_counts_each_rank_alone() -> None:
    """The published behaviour: mean over a rank's own tokens, then over ranks."""
    rows = [row([1, 2, 3, 4], [0, 1, 1, 1]), row([5, 6], [0, 1], trajectory=1)]
    first, second = shares(rows, 2, 64, "rank-local")
    assert (first.divisor, second.divisor) == (3.0, 1.0)
    assert first.ranks == second.ranks == 1
    assert first.micro_batches[0].input_ids.tolist() == [[1, 2, 3]]
    _, without = shares(rows[:1], 2, 64, "rank-local")
    assert without.micro_batches == (EMPTY,)


def test_a_row_without_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt is missing"):
        shares([row([1, 2], [1, 1])], 1, 64, "token-mean")
