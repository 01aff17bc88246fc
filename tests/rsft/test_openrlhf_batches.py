"""Which rows each rank computes: nothing lost or twice, the budget, equal counts, the weights."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rsft_kit import row

from whale_core.records import Row
from whale_rsft.losses import row_weights
from whale_rsft.openrlhf.batches import EMPTY, Share, shares

BUDGET = 64


def split(rows: list[Row], ranks: int, loss: str = "token-mean") -> list[Share]:
    weights, divisor = row_weights(rows, loss, 2)
    return shares(rows, weights, divisor, ranks, BUDGET)


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
            for b, k in zip(*np.nonzero(batch.weights), strict=True):
                at = batch.positions[k]
                assert batch.attention_mask[b, : at + 1].all()
                before = tuple(batch.input_ids[b, : at + 1].tolist())
                found.append((before, int(batch.targets[b, k]), float(batch.logprobs[b, k])))
    return sorted(found)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 20), ranks=st.integers(1, 4))
def test_every_trained_token_once_on_all_ranks_together(seed: int, count: int, ranks: int) -> None:
    rows = ragged(seed, count)
    parts = split(rows, ranks)
    assert computed(parts) == trained(rows)
    assert len({len(part.micro_batches) for part in parts}) == 1
    for part in parts:
        assert (part.divisor, part.ranks) == (len(trained(rows)), ranks)
        for batch in part.micro_batches:
            assert len(batch.input_ids) == 1 or batch.input_ids.size <= BUDGET


def test_the_order_of_rows_plays_no_part() -> None:
    rows = ragged(3, 17)
    mixed = random.Random(1).sample(rows, len(rows))
    for loss in ("token-mean", "seq-mean-token-mean"):
        assert repr(split(rows, 3, loss)) == repr(split(mixed, 3, loss))


def test_work_is_shared_evenly() -> None:
    first, second = (part.computed_tokens for part in split(ragged(5, 60), 2))
    assert abs(first - second) <= BUDGET


def test_a_rank_without_rows_gets_weightless_batches() -> None:
    first, second = split([row([1, 2, 3], [0, 1, 1])], 2)
    assert first.divisor == second.divisor == 2.0
    assert second.micro_batches == (EMPTY,)
    assert not EMPTY.weights.any()


@pytest.mark.parametrize("loss", ["token-mean", "seq-mean-token-mean", "rank-local"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_the_loss_does_not_depend_on_which_rank_has_a_row(loss: str, ranks: int) -> None:
    rows = ragged(7, 9)
    weights, divisor = row_weights(rows, loss, 2)
    parts = split(rows, ranks, loss)
    assert {part.divisor for part in parts} == {divisor}
    found = sorted(w for p in parts for b in p.micro_batches for w in b.weights[b.weights > 0])
    wanted = [w for r, w in zip(rows, weights, strict=True) for _ in range(r.loss_mask.sum())]
    assert found == pytest.approx(sorted(wanted))


def test_what_follows_the_last_trained_token_is_not_computed() -> None:
    [part] = split([row([1, 2, 3, 4, 5], [0, 1, 0, 1, 0])], 1)
    [batch] = part.micro_batches
    assert batch.input_ids.tolist() == [[1, 2, 3]]
    assert batch.targets.tolist() == [[2, 4]]


def test_a_row_without_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt is missing"):
        split([row([1, 2], [1, 1])], 1)
