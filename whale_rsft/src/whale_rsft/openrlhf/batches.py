"""Which rows each rank computes together: token budget, balance, and padding to equal counts.

Rows are padded, never packed: in a hybrid model (Qwen3.5) packed rows would leak into each other
through the linear attention. Every rank gets the same number of micro-batches, since a rank's
backward pass waits for the others'; a rank without a row left gets one of weight zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from whale_core.records import Floats, Row
from whale_rsft.packing import trimmed

Indices = npt.NDArray[np.int64]


@frozen
class MicroBatch:
    """B rows of at most T inputs, K positions of which predict a trained token of some row."""

    input_ids: Indices = field(eq=False)  # [B, T], padded on the right
    attention_mask: Indices = field(eq=False)  # [B, T]
    positions: Indices = field(eq=False)  # [K], ascending
    targets: Indices = field(eq=False)  # [B, K]
    weights: Floats = field(eq=False)  # [B, K] the target's weight; 0 where it is not trained on
    logprobs: Floats = field(eq=False)  # [B, K] sampling log-probability


@frozen
class Share:
    """What one rank computes for an update: its part of the sum that the divisor divides."""

    micro_batches: tuple[MicroBatch, ...]
    divisor: float
    ranks: int

    @property
    def computed_tokens(self) -> int:
        """Tokens that go through the model, padding included."""
        return sum(batch.input_ids.size for batch in self.micro_batches)


@frozen
class Weighted:
    """A row up to its last trained token, and what each of these weighs."""

    row: Row
    weight: float

    @property
    def inputs(self) -> int:
        """How many of its tokens predict another."""
        return len(self.row.input_ids) - 1


def shares(
    rows: Sequence[Row], weights: Sequence[float], divisor: float, ranks: int, token_budget: int
) -> list[Share]:
    """Return each rank's part of an update on ``rows``, at least one of whose tokens is trained.

    ``weights`` and ``divisor`` make the loss (``losses``); which rows a rank gets has no influence
    on it. ``token_budget`` bounds a micro-batch's padded tokens; a longer row is one of its own.

    Raises:
        ValueError: a row trains on its first token, which nothing predicts.
    """
    trained = [
        Weighted(trimmed(row), weight)
        for row, weight in zip(rows, weights, strict=True)
        if row.loss_mask.any()
    ]
    given = _balanced(_micro_batches(trained, token_budget), ranks)
    most = max(len(batches) for batches in given)
    return [
        Share((*map(_collated, batches), *[EMPTY] * (most - len(batches))), float(divisor), ranks)
        for batches in given
    ]


def _micro_batches(rows: Sequence[Weighted], token_budget: int) -> list[list[Weighted]]:
    """Return rows of near length together, longest first; the order of ``rows`` plays no part."""
    batches: list[list[Weighted]] = []
    for one in sorted(rows, key=lambda one: (-one.inputs, _content(one))):
        if batches and batches[-1][0].inputs * (len(batches[-1]) + 1) <= token_budget:
            batches[-1].append(one)
        else:
            batches.append([one])
    return batches


def _content(one: Weighted) -> list[list[float]]:
    row = one.row
    arrays = (row.input_ids, row.loss_mask, row.logprobs)
    return [*(array.tolist() for array in arrays), [one.weight]]


def _balanced(batches: Sequence[list[Weighted]], ranks: int) -> list[list[list[Weighted]]]:
    """Give the longest batch left to the rank with the least to do (ties: the lowest rank)."""
    given: list[list[list[Weighted]]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    sizes = [len(batch) * batch[0].inputs for batch in batches]
    for negative, i in sorted((-size, i) for i, size in enumerate(sizes)):
        rank = load.index(min(load))
        given[rank].append(batches[i])
        load[rank] -= negative
    return given


def _collated(batch: Sequence[Weighted]) -> MicroBatch:
    width = batch[0].inputs
    rows = [one.row for one in batch]
    targets = _padded([row.input_ids[1:] for row in rows], width, np.int64)
    trained = _padded([row.loss_mask[1:] for row in rows], width, np.float32)
    logprobs = _padded([row.logprobs[1:] for row in rows], width, np.float32)
    positions = np.flatnonzero(trained.any(0))
    weights = np.array([[one.weight] for one in batch], np.float32)
    return MicroBatch(
        input_ids=_padded([row.input_ids[:-1] for row in rows], width, np.int64),
        attention_mask=_padded([np.ones(len(row.input_ids) - 1) for row in rows], width, np.int64),
        positions=positions,
        targets=targets[:, positions],
        weights=trained[:, positions] * weights,
        logprobs=logprobs[:, positions],
    )


def _padded(arrays: Sequence[npt.NDArray[Any]], width: int, dtype: Any) -> npt.NDArray[Any]:
    """Return the arrays as rows ``[B, width]``, zeros after their ends."""
    whole = np.zeros((len(arrays), width), dtype)
    for i, array in enumerate(arrays):
        whole[i, : len(array)] = array
    return whole


EMPTY = MicroBatch(
    input_ids=np.zeros((1, 1), np.int64),
    attention_mask=np.ones((1, 1), np.int64),
    positions=np.zeros(1, np.int64),
    targets=np.zeros((1, 1), np.int64),
    weights=np.zeros((1, 1), np.float32),
    logprobs=np.zeros((1, 1), np.float32),
)
