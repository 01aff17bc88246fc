"""Training rows from calls: every sampled token has mask 1 in exactly one row."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from whale_core.errors import InputError
from whale_core.records import UNKNOWN_TOKEN, Call, Row


class _OpenRow:
    def __init__(self, call: Call, trained: bool) -> None:
        self.ids = np.empty(0, np.int32)
        self.mask = np.empty(0, np.uint8)
        self.logprobs = np.empty(0, np.float32)
        self.extend(call, trained)

    def extend(self, call: Call, trained: bool) -> None:
        """Append what the call adds: its new prompt tokens (mask 0), and its sampled ones (mask 1
        if they are ``trained``)."""
        glue = len(call.prompt_ids) - len(self.ids)
        sampled = len(call.token_ids)
        self.ids = np.concatenate([call.prompt_ids, call.token_ids]).astype(np.int32)
        self.mask = np.concatenate(
            [self.mask, np.zeros(glue, np.uint8), np.full(sampled, trained, np.uint8)]
        )
        self.logprobs = np.concatenate(
            [self.logprobs, np.zeros(glue, np.float32), call.logprobs]
        ).astype(np.float32)

    def begins(self, prompt: np.ndarray) -> bool:
        """Say whether ``prompt`` starts with this row's tokens."""
        length = len(self.ids)
        return length <= len(prompt) and bool(np.array_equal(prompt[:length], self.ids))


def build_rows(
    calls: Sequence[Call], trajectory: int = 0, left_out: Container[int] = ()
) -> tuple[Row, ...]:
    """Return the rows of one trajectory's calls, in order of their first call.

    A call whose prompt begins with an open row's tokens joins that row (the longest such row);
    otherwise it opens a new one. So a harness that appends gives one row, one that rewrites its
    context gives several, and no token is trained twice. Calls that sampled nothing are left out.
    What the calls ``left_out`` (ordinals) sampled stays in its rows as context, with mask 0.

    Raises:
        InputError: the engine did not tell the token ids, so that nothing can be trained on them.
    """
    if any((ids == UNKNOWN_TOKEN).any() for c in calls for ids in (c.prompt_ids, c.token_ids)):
        raise InputError(
            "these rollouts have no token ids, so no training rows: for a model update choose an "
            "engine that tells them (engine=transformers)"
        )
    rows: list[_OpenRow] = []
    for number, call in enumerate(calls):
        if not len(call.token_ids):
            continue
        trained = number not in left_out
        fitting = [row for row in rows if row.begins(call.prompt_ids)]
        if fitting:
            max(fitting, key=lambda row: len(row.ids)).extend(call, trained)
        else:
            rows.append(_OpenRow(call, trained))
    return tuple(Row(row.ids, row.mask, row.logprobs, trajectory) for row in rows)


def forked_share(calls: Sequence[Call], rows: Sequence[Row]) -> float:
    """Return the share of calls that could not be joined to an earlier row of their trajectory."""
    made = sum(1 for call in calls if len(call.token_ids))
    return (len(rows) - 1) / made if made else 0.0
