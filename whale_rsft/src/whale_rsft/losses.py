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

    ``rows`` are those of a minibatch; rows of one trajectory share ``Row.trajectory``. A trajectory
    without a trained token does not count.
    """
    if loss == "token-mean":
        return [1.0] * len(rows), sum(int(row.loss_mask.sum()) for row in rows)
    tokens: Counter[int] = Counter()  # of each trajectory
    for row in rows:
        tokens[row.trajectory] += int(row.loss_mask.sum())
    trained = sorted(number for number, count in tokens.items() if count)
    if loss == "seq-mean-token-mean":
        return [1.0 / max(tokens[row.trajectory], 1) for row in rows], len(trained)
    share = -(-len(trained) // ranks)
    rank = {number: place // share for place, number in enumerate(trained)}
    of_rank: Counter[int] = Counter()
    for number in trained:
        of_rank[rank[number]] += tokens[number]
    return [
        1.0 / of_rank[rank[row.trajectory]] if row.trajectory in rank else 0.0 for row in rows
    ], ranks
