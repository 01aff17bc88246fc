"""A stored episode, executed again on its recorded replies: no model is needed for that."""

from __future__ import annotations

import json

from whale_core.records import Example, Json, Replayed, Trajectory
from whale_core.roles import Domain, Harness, Verifier
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.stand_ins import RecordedPolicy
from whale_core.run.stored import read_trajectory, trajectory_json

COMPARED = ("answer", "outcome", "reason", "reward", "metrics", "record")


async def replay(
    recorded: Trajectory,
    harness: Harness,
    example: Example,
    domain: Domain,
    verifier: Verifier,
    jail_kind: str,
) -> Replayed:
    """Execute ``harness`` in the jail on ``example``, with the replies that ``recorded`` holds.

    Where it asks something else, the recorded replies end.
    """
    executor = RolloutExecutor(domain, verifier, jail_kind)
    return await replay_with(executor, recorded, harness, example)


async def replay_with(
    executor: RolloutExecutor,
    recorded: Trajectory,
    harness: Harness,
    example: Example,
    goes_on: bool = False,
) -> Replayed:
    """Do what ``replay`` does with an executor that is there; ``goes_on``: where it asks something
    else, the recorded replies go on all the same."""
    policy = RecordedPolicy(recorded, goes_on)
    (made,) = await executor.run([Job(example, harness, recorded.key)], policy)
    made = read_trajectory(json.loads(json.dumps(trajectory_json(made))))  # as it would be stored
    if policy.diverged is not None:
        number = policy.diverged[0]
        said = (
            f"model call {number + 1} puts other messages than the recorded one"
            if number < len(recorded.calls)
            else f"it makes a model call more than the {len(recorded.calls)} recorded"
        )
        return Replayed(made, (said,), policy.diverged)
    return Replayed(made, tuple(_differences(recorded, made)))


def _differences(then: Trajectory, now: Trajectory) -> list[str]:
    found = []
    if len(now.calls) != len(then.calls):
        found.append(f"model calls: {len(now.calls)} now, {len(then.calls)} recorded")
    for number, (ours, theirs) in enumerate(zip(now.events, then.events, strict=False), 1):
        if ours != theirs:
            found.append(f"environment call {number}: {_short(ours)} now, {_short(theirs)} then")
            break
    else:
        if len(now.events) != len(then.events):
            found.append(f"environment calls: {len(now.events)} now, {len(then.events)} recorded")
    for name in COMPARED:
        ours, theirs = getattr(now, name), getattr(then, name)
        if ours != theirs:
            found.append(f"{name}: {_short(ours)} now, {_short(theirs)} recorded")
    return found


def _short(value: Json) -> str:
    text = str(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 120 else text[:119] + "…"
