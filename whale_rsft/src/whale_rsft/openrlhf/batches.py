"""Which rows each rank computes together: token budget, balance, and padding to equal counts.

Rows are padded, never packed: in a hybrid model (Qwen3.5) packed rows would leak into each other
through the linear attention. Every rank gets the same number of micro-batches, since a rank's
backward pass waits for the others'; a rank without a row left gets one of weight zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from whale_core.records import Floats, Row

Loss = Literal["token-mean", "seq-mean-token-mean", "rank-local"]
Indices = npt.NDArray[np.int64]


@frozen
class MicroBatch:
    """B rows of at most T inputs, K positions of which predict a trained token of some row."""

    input_ids: Indices = field(eq=False)  # [B, T], padded on the right
    attention_mask: Indices = field(eq=False)  # [B, T]
    positions: Indices = field(eq=False)  # [K], ascending
    targets: Indices = field(eq=False)  # [B, K]
    mask: Floats = field(eq=False)  # [B, K] 1 where the row trains on the target
    weights: Floats = field(eq=False)  # [B, K] the target's weight in the loss
    logprobs: Floats = field(eq=False)  # [B, K] sampling log-probability


@frozen
class Share:
    """What one rank computes for an update. Its loss is the weighted sum over ``divisor``."""

    micro_batches: tuple[MicroBatch, ...]
    divisor: float
    ranks: int  # 1: the divisor counts all ranks, else it is this rank's own

    @property
    def computed_tokens(self) -> int:
        """Tokens that go through the model, padding included."""
        return sum(batch.input_ids.size for batch in self.micro_batches)


def shares(rows: Sequence[Row], ranks: int, token_budget: int, loss: Loss) -> list[Share]:
    """Return each rank's part of an update on ``rows``, at least one of whose tokens is trained.

    ``token_budget`` bounds a micro-batch's padded tokens; a longer row is a micro-batch of its own.
    Apart from ``rank-local``, which rows a rank gets has no influence on the loss.

    Raises:
        ValueError: a row trains on its first token, which nothing predicts.
    """
    trained = [_trimmed(row) for row in rows if row.loss_mask.any()]
    if loss == "rank-local":
        parts = [list(part) for part in _in_order(trained, ranks)]
        batches = [_micro_batches(part, token_budget) for part in parts]
    else:
        batches = _balanced(_micro_batches(trained, token_budget), ranks)
    most = max(len(each) for each in batches)
    lengths = _trained_by_trajectory(trained)
    result = []
    for each in batches:
        mine = [row for batch in each for row in batch]
        divisor = {
            "token-mean": float(sum(lengths.values())),
            "seq-mean-token-mean": float(len(lengths)),
            "rank-local": float(sum(int(row.loss_mask.sum()) for row in mine)) or 1.0,
        }[loss]
        per_sequence = lengths if loss == "seq-mean-token-mean" else None
        filled = [_collated(batch, per_sequence) for batch in each]
        filled += [EMPTY] * (most - len(each))
        result.append(Share(tuple(filled), divisor, 1 if loss == "rank-local" else ranks))
    return result


def _trimmed(row: Row) -> Row:
    """Leave out what comes after the last trained token."""
    if row.loss_mask[0]:
        raise ValueError("a training row begins with a sampled token: its prompt is missing")
    stop = int(np.flatnonzero(row.loss_mask)[-1]) + 1
    return Row(row.input_ids[:stop], row.loss_mask[:stop], row.logprobs[:stop], row.trajectory)


def _trained_by_trajectory(rows: Sequence[Row]) -> Mapping[int, int]:
    counts: dict[int, int] = {}
    for row in rows:
        counts[row.trajectory] = counts.get(row.trajectory, 0) + int(row.loss_mask.sum())
    return counts


def _in_order(rows: Sequence[Row], ranks: int) -> list[list[Row]]:
    """Split trajectories in order, near-equal counts, a trajectory's rows together."""
    names = list(_trained_by_trajectory(rows))
    bounds = [len(names) * i // ranks for i in range(ranks + 1)]
    groups = [set(names[a:b]) for a, b in pairwise(bounds)]
    return [[row for row in rows if row.trajectory in group] for group in groups]


def _micro_batches(rows: Sequence[Row], token_budget: int) -> list[list[Row]]:
    """Return rows of near length together, longest first; the order of ``rows`` plays no part."""
    ordered = sorted(rows, key=lambda row: (-len(row.input_ids), _content(row)))
    batches: list[list[Row]] = []
    for row in ordered:
        width = len(batches[-1][0].input_ids) - 1 if batches else 0
        if batches and width * (len(batches[-1]) + 1) <= token_budget:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def _content(row: Row) -> list[list[float]]:
    return [array.tolist() for array in (row.input_ids, row.loss_mask, row.logprobs)]


def _balanced(batches: Sequence[list[Row]], ranks: int) -> list[list[list[Row]]]:
    """Give the longest batch left to the rank with the least to do (ties: the lowest rank)."""
    given: list[list[list[Row]]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    sizes = [len(batch) * (len(batch[0].input_ids) - 1) for batch in batches]
    for size, i in sorted((-size, i) for i, size in enumerate(sizes)):
        rank = load.index(min(load))
        given[rank].append(batches[i])
        load[rank] -= size
    return given


def _collated(rows: Sequence[Row], per_sequence: Mapping[int, int] | None) -> MicroBatch:
    """Pad on the right; with ``per_sequence`` (trained tokens by trajectory) each weighs 1 over."""
    width = len(rows[0].input_ids) - 1
    trained = np.zeros((len(rows), width), bool)
    for i, row in enumerate(rows):
        trained[i, : len(row.input_ids) - 1] = row.loss_mask[1:] > 0
    positions = np.flatnonzero(trained.any(0))
    mask = trained[:, positions].astype(np.float32)

    def padded(arrays: Sequence[npt.NDArray[np.generic]], dtype: type) -> npt.NDArray[np.generic]:
        whole = np.zeros((len(rows), width), dtype)
        for i, array in enumerate(arrays):
            whole[i, : len(array)] = array
        return whole

    weights = mask
    if per_sequence is not None:
        weights = mask / np.array([[per_sequence[row.trajectory]] for row in rows], np.float32)
    return MicroBatch(
        input_ids=padded([row.input_ids[:-1] for row in rows], np.int64),  # type: ignore[arg-type]
        attention_mask=padded([np.ones(len(row.input_ids) - 1) for row in rows], np.int64),  # type: ignore[arg-type]
        positions=positions,
        targets=padded([row.input_ids[1:] for row in rows], np.int64)[:, positions],  # type: ignore[arg-type]
        mask=mask,
        weights=weights.astype(np.float32),
        logprobs=padded([row.logprobs[1:] for row in rows], np.float32)[:, positions],  # type: ignore[arg-type]
    )


EMPTY = MicroBatch(
    input_ids=np.zeros((1, 1), np.int64),
    attention_mask=np.ones((1, 1), np.int64),
    positions=np.zeros(1, np.int64),
    targets=np.zeros((1, 1), np.int64),
    mask=np.zeros((1, 1), np.float32),
    weights=np.zeros((1, 1), np.float32),
    logprobs=np.zeros((1, 1), np.float32),
)
