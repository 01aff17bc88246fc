"""Which rollouts of a step are trained on: those the verifier accepted, less what options leave
out.

In this order, each off by default: ``drop_all_pass`` leaves out prompts, ``exclude_rejected``
calls, ``max_length`` rows, ``deduplicate`` and ``max_accepted_per_prompt`` trajectories. All that
only lacks in training: the rollouts and rows that the run keeps are complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import field, frozen

from whale_core.records import Outcome, Row, Trajectory
from whale_core.roles import Group
from whale_core.rollout.rows import build_rows
from whale_rsft.config import Config

Rows = tuple[Row, ...]  # the training rows of one trajectory


@frozen
class Accepted:
    """The rows of each trajectory to train on, and how much each option that is on left out."""

    trajectories: list[Rows]
    left_out: Mapping[str, float] = field(factory=dict)


def is_accepted(trajectory: Trajectory, accept_above: float) -> bool:
    """Return whether the verifier gave a reward strictly above ``accept_above``."""
    scored = trajectory.outcome is not Outcome.NOT_SCORED and trajectory.verdict is not None
    return scored and trajectory.reward > accept_above


def accepted_of(groups: Sequence[Group], config: Config) -> Accepted:
    """Return what is trained on of a step's rollouts, in their order."""
    kept: list[Rows] = []
    left_out: Counter[str] = Counter()
    for group in groups:
        kept += _of_prompt(group, config, left_out)
    on = {
        "all_pass": config.drop_all_pass,
        "rejected": config.exclude_rejected,
        "too_long": config.max_length is not None,
        "duplicate": config.deduplicate,
        "over_limit": config.max_accepted_per_prompt is not None,
    }
    return Accepted(kept, {f"left_out_{k}": float(left_out[k]) for k, is_on in on.items() if is_on})


def _of_prompt(group: Group, config: Config, left_out: Counter[str]) -> list[Rows]:
    """Return the rows of a prompt's trajectories to train on; count what the options leave out."""
    if config.drop_all_pass and all_passed(group, config.accept_above):
        left_out["all_pass"] += 1
        return []
    kept: list[Rows] = []
    for trajectory, rows in zip(group.trajectories, group.rows, strict=True):
        if not is_accepted(trajectory, config.accept_above):
            continue
        whole = rows
        if config.exclude_rejected:
            rows = without_rejected(trajectory, rows)
            left_out["rejected"] += len(trajectory.rejected_calls)
        if config.max_length is not None:
            short = within(rows, config.max_length)
            left_out["too_long"] += len(rows) - len(short)
            rows = short
        if rows or not whole:  # one of which the options leave nothing is no longer accepted
            kept.append(rows)
    distinct = without_duplicates(kept) if config.deduplicate else kept
    first = distinct[: config.max_accepted_per_prompt]
    left_out["duplicate"] += len(kept) - len(distinct)
    left_out["over_limit"] += len(distinct) - len(first)
    return first


def all_passed(group: Group, accept_above: float) -> bool:
    """Return whether every scored rollout of a prompt was accepted, of which there is at least one:
    such a prompt has nothing to teach that the policy cannot do."""
    scored = [t for t in group.trajectories if t.outcome is not Outcome.NOT_SCORED]
    return bool(scored) and all(is_accepted(t, accept_above) for t in scored)


def without_rejected(trajectory: Trajectory, rows: Rows) -> Rows:
    """Return the rows with mask 0 for what was sampled in calls whose reply was of no use.

    It stays in the context of what was sampled later. Rows that then train nothing are dropped.
    """
    rejected = trajectory.rejected_calls
    if not rejected or not rows:
        return rows
    again = build_rows(trajectory.calls, rows[0].trajectory, left_out=rejected)
    return tuple(row for row in again if row.loss_mask.any())


def within(rows: Rows, max_length: int) -> Rows:
    """Return the rows of at most ``max_length`` tokens, context included; none is cut short."""
    return tuple(row for row in rows if len(row.input_ids) <= max_length)


def without_duplicates(trajectories: Sequence[Rows]) -> list[Rows]:
    """Return the first of those that train the same tokens, row by row."""
    first: dict[tuple[bytes, ...], Rows] = {}
    for rows in trajectories:
        first.setdefault(tuple(row.input_ids[row.loss_mask == 1].tobytes() for row in rows), rows)
    return list(first.values())
