"""How trained tokens are averaged: L = -sum over rows and their trained tokens of w log p / D.

The three losses differ in the rows' weights w and the divisor D alone. With T the trained tokens of
a minibatch and n its trajectories:

    token-mean           w = 1                            D = T      (the published formula)
    seq-mean-token-mean  w = 1 / tokens of the trajectory D = n
    rank-local           w = 1 / tokens of the rank       D = ranks

``rank-local`` is what the released code does on several GPUs: the trajectories are dealt out in
order, ceil(n / ranks) to each rank; each rank takes the mean over its own tokens, and all ranks'
gradients count alike, also those of ranks that have nothing to train on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from whale_core.records import Row


def row_weights(rows: Sequence[Row], loss: str, ranks: int) -> tuple[list[float], float]:
    """Return the weight of each row's trained tokens, and the divisor.

    ``rows`` are those of a minibatch; rows of one trajectory share ``Row.trajectory``.
    """
    if loss == "token-mean":
        return [1.0] * len(rows), sum(int(row.loss_mask.sum()) for row in rows)
    order = {number: i for i, number in enumerate(sorted({row.trajectory for row in rows}))}
    if loss == "seq-mean-token-mean":
        groups, divisor = order, len(order)
    else:
        share = -(-len(order) // ranks)
        groups, divisor = {number: i // share for number, i in order.items()}, ranks
    tokens: Counter[int] = Counter()
    for row in rows:
        tokens[groups[row.trajectory]] += int(row.loss_mask.sum())
    return [1.0 / max(tokens[groups[row.trajectory]], 1) for row in rows], divisor
