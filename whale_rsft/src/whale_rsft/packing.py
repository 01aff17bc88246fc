"""Pack training rows so that tokens they share are computed once.

The accepted rollouts of a prompt begin with the same tokens, and so do many prompts. Rows sorted
by their tokens, each laid down from where it leaves the row before it, are a prefix tree in
depth-first order:

    rows        packed      position  end
    a b c       a           0         5       token q may attend to token k  iff  k <= q < end[k]
    a b d e     b           1         5       (k is on the path from the root to q)
    a f         c           2         3
                d e         2 3       5 5     ...

A tree token sees exactly the tokens before it in its row, at the same positions, so loss and
gradient are those of separate rows. A target that several rows share counts once for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from whale_core.records import Floats, Row

Indices = npt.NDArray[np.int64]
Weighted = tuple[Row, float]  # a row and the weight of its trained tokens in the loss


@frozen
class Pack:
    """One micro-batch: S packed tokens in depth-first order, K of which predict N targets."""

    input_ids: Indices = field(eq=False)  # [S]
    positions: Indices = field(eq=False)  # [S] position of the token in its rows
    ends: Indices = field(eq=False)  # [S] one past the last token that may attend to this one
    sources: Indices = field(eq=False)  # [K] packed tokens whose logits are needed, ascending
    target_sources: Indices = field(eq=False)  # [N] index into ``sources``
    target_ids: Indices = field(eq=False)  # [N]
    weights: Floats = field(eq=False)  # [N] sum of the weights of the rows that train on it
    logprobs: Floats = field(eq=False)  # [N] mean sampling log-probability over these rows


def pack_rows(
    rows: Sequence[Row], token_budget: int, weights: Sequence[float] | None = None
) -> list[Pack]:
    """Return packs of at most ``token_budget`` tokens that hold every trained token of ``rows``.

    A row longer than the budget gets a pack of its own (budget 0: one row each). The result depends
    on the rows alone, not on their order. Tokens after a row's last trained one are left out.
    ``weights`` are the rows' (``losses``); None: 1 each.

    Raises:
        ValueError: a row trains on its first token, which nothing predicts.
    """
    weighted = zip(rows, [1.0] * len(rows) if weights is None else weights, strict=True)
    return [_pack(chunk) for chunk in _chunks(_sorted(weighted), token_budget)]


def _sorted(rows: Iterable[Weighted]) -> list[Weighted]:
    trained = [(trimmed(row), weight) for row, weight in rows if row.loss_mask.any()]
    return sorted(trained, key=_order)


def _order(weighted: Weighted) -> list[object]:
    row, weight = weighted
    return [*(a.tolist() for a in (row.input_ids, row.loss_mask, row.logprobs)), weight]


def trimmed(row: Row) -> Row:
    """Return a row up to its last trained token. Raise ``ValueError`` if it trains on its first."""
    if row.loss_mask[0]:
        raise ValueError("a training row begins with a sampled token: its prompt is missing")
    length = int(np.flatnonzero(row.loss_mask)[-1]) + 1
    return Row(
        row.input_ids[:length], row.loss_mask[:length], row.logprobs[:length], row.trajectory
    )


def _chunks(rows: Sequence[Weighted], token_budget: int) -> Iterator[list[Weighted]]:
    chunk: list[Weighted] = []
    tokens = 0
    for row, weight in rows:
        new = len(row.input_ids) - 1  # the last token is only a target
        grown = tokens + new - (_shared(chunk[-1][0], row) if chunk else 0)
        if chunk and grown > token_budget:
            yield chunk
            chunk, grown = [], new
        chunk.append((row, weight))
        tokens = grown
    if chunk:
        yield chunk


def _shared(left: Row, right: Row) -> int:
    """Return how many leading input tokens (last ones excluded) the two rows have in common."""
    length = min(len(left.input_ids), len(right.input_ids)) - 1
    different = np.flatnonzero(left.input_ids[:length] != right.input_ids[:length])
    return int(different[0]) if len(different) else length


def _pack(rows: Sequence[Weighted]) -> Pack:
    input_ids: list[int] = []
    positions: list[int] = []
    ends: list[int] = []
    # (packed source, token) -> weights and sampling log-probabilities of the rows that train on it
    targets: dict[tuple[int, int], list[tuple[float, float]]] = {}
    path: list[int] = []  # packed index of each input token of the current row
    previous: Row | None = None
    for row, weight in rows:
        shared = _shared(previous, row) if previous is not None else 0
        for closed in path[shared:]:
            ends[closed] = len(input_ids)
        new = row.input_ids[shared:-1].tolist()
        path[shared:] = range(len(input_ids), len(input_ids) + len(new))
        input_ids += new
        positions += range(shared, shared + len(new))
        ends += [0] * len(new)
        for t in np.flatnonzero(row.loss_mask).tolist():
            edge = (path[t - 1], int(row.input_ids[t]))
            targets.setdefault(edge, []).append((weight, float(row.logprobs[t])))
        previous = row
    for closed in path:
        ends[closed] = len(input_ids)

    edges = sorted(targets)
    sources, target_sources = np.unique([source for source, _ in edges], return_inverse=True)
    return Pack(
        input_ids=np.array(input_ids, np.int64),
        positions=np.array(positions, np.int64),
        ends=np.array(ends, np.int64),
        sources=sources.astype(np.int64),
        target_sources=target_sources.astype(np.int64),
        target_ids=np.array([token for _, token in edges], np.int64),
        weights=np.array([sum(w for w, _ in targets[edge]) for edge in edges], np.float32),
        logprobs=np.array([np.mean([p for _, p in targets[edge]]) for edge in edges], np.float32),
    )
