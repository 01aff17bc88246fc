"""What a workspace shows of the rollouts: trajectories as JSONL, outcomes as a table, a digest.

References are left out unless they are asked for: what an environment records for its verifier is
not shown, nor what a verdict was made of. What a harness saw and got is shown as it was.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import field, frozen

from whale_core.records import Example, Json, Message, Outcome, Trajectory
from whale_core.rollout.reasons import normalised_reason
from whale_core.run.archive import ArchiveEntry

EXAMPLES_NAMED = 8  # of each group in the digest


@frozen
class Evidence:
    """What a proposer may see of this phase's rollouts.

    ``traces`` are by the archive's ids, on ``shown`` alone; ``examples`` are all that are scored.
    ``view`` gives an example's public view. ``reveal`` adds its private content, the reference.
    """

    examples: Sequence[Example] = ()
    shown: Sequence[Example] = ()
    traces: Mapping[str, Sequence[Trajectory]] = field(factory=dict)
    view: Callable[[Example], Mapping[str, Json]] = lambda example: {}
    reveal: bool = False


def trace_lines(trajectories: Sequence[Trajectory], evidence: Evidence) -> Iterator[str]:
    """Yield each trajectory as a JSON line: the task, then turn by turn what the harness sent, what
    the model wrote and what the environment answered; how it ended and why."""
    shown = {example.id: example for example in evidence.shown}
    for trajectory in trajectories:
        example = shown[trajectory.example_id]
        line: dict[str, Json] = {
            "example": example.id,
            "draw": trajectory.key.draw,
            "outcome": str(trajectory.outcome),
            "reward": trajectory.reward,
            "reason": trajectory.reason,
            "answer": trajectory.answer,
            "metrics": dict(trajectory.metrics),
            "task": evidence.view(example),
            "turns": turns(trajectory),
        }
        if evidence.reveal:
            line["reference"] = dict(example.content)
        yield json.dumps(line, ensure_ascii=False) + "\n"


def turns(trajectory: Trajectory) -> list[dict[str, Json]]:
    """Return the turns of an episode; turn 0 is what came before the first model call.

    ``repeated`` counts the messages that begin a call as they began the one before; ``sent`` are
    the others.
    """
    made: list[dict[str, Json]] = []
    before: tuple[Message, ...] = ()
    for number in range(len(trajectory.calls) + 1):
        turn: dict[str, Json] = {"turn": number}
        if number:
            call = trajectory.calls[number - 1]
            same = _common(before, call.messages)
            before = call.messages
            turn["repeated"] = same
            turn["sent"] = [_message(message) for message in call.messages[same:]]
            turn["wrote"] = call.text
            turn["finish"] = call.finish_reason
        events = [
            {"call": event.name, "arguments": dict(event.arguments)}
            | ({"error": event.error} if event.error is not None else {"result": event.result})
            for event in trajectory.events
            if event.after_call == number
        ]
        if events:
            turn["environment"] = events
        if number or events:
            made.append(turn)
    return made


def outcomes_table(entries: Sequence[ArchiveEntry], evidence: Evidence, phase: int) -> str:
    """Return a CSV table: for each scored example, whether it is shown, and the mean reward of this
    phase under each harness that has one (empty: not scored)."""
    scores = {
        entry.id: record.score
        for entry in entries
        for record in entry.selection_scores
        if record.phase == phase
    }
    shown = {example.id for example in evidence.shown}
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["example", "shown", *scores])
    for example in evidence.examples:
        rewards = [score.rewards.get(example.id) for score in scores.values()]
        cells = [f"{sum(r) / len(r):.4g}" if r else "" for r in rewards]
        table.writerow([example.id, "yes" if example.id in shown else "no", *cells])
    return file.getvalue()


def digest(
    entries: Sequence[ArchiveEntry],
    evidence: Evidence,
    accepted: str,
    format_metrics: Sequence[str] = (),
) -> str:
    """Return what went wrong on the shown examples, grouped by cause, as Markdown: the accepted
    harness first, then the others of this phase, newest first, with what changed to the parent."""
    order = [entry for entry in reversed(entries) if entry.id in evidence.traces]
    order.sort(key=lambda entry: entry.id != accepted)
    parts = ["# What went wrong on the shown examples\n"]
    if not order:
        parts.append("\nNothing was scored in this phase yet.\n")
    for entry in order:
        parts.append(_digest_of(entry, evidence, entry.id == accepted, format_metrics))
    return "".join(parts)


def cause(trajectory: Trajectory, format_metrics: Sequence[str] = ()) -> str:
    """Return why a rollout did not pass, in words that equal causes share."""
    if trajectory.outcome is Outcome.NOT_SCORED:
        return "not scored (infrastructure): " + normalised_reason(trajectory.reason or "")
    if trajectory.reason is not None:
        return "ended early: " + normalised_reason(trajectory.reason)
    signs = []
    if trajectory.calls and trajectory.calls[-1].finish_reason == "length":
        signs.append("the last reply was cut off at its length limit")
    refused = [event for event in trajectory.events if event.error is not None]
    if refused:
        signs.append(f"a call of {refused[-1].name} was refused: {refused[-1].error}")
    signs += [f"{name} is 0" for name in format_metrics if trajectory.metrics.get(name, 1.0) == 0.0]
    if signs:
        return "no reward; " + "; ".join(normalised_reason(sign) for sign in signs)
    return "no reward, with nothing else wrong: read the traces"


def _digest_of(
    entry: ArchiveEntry, evidence: Evidence, accepted: bool, format_metrics: Sequence[str]
) -> str:
    made = evidence.traces[entry.id]
    passed = sum(t.outcome is Outcome.PASS for t in made)
    name = f"{entry.id} (accepted)" if accepted else entry.id
    lines = [f"\n## {name}: {passed} of {len(made)} rollouts passed\n"]
    groups: dict[str, list[str]] = {}
    for trajectory in made:
        if trajectory.outcome is not Outcome.PASS:
            why = cause(trajectory, format_metrics)
            groups.setdefault(why, []).append(trajectory.example_id)
    for why in sorted(groups, key=lambda why: (-len(groups[why]), why)):
        lines.append(f"- {len(groups[why])} × {why} ({_named(groups[why])})")
    before = evidence.traces.get(entry.parent or "")
    if before:
        ours, theirs = _solved(made), _solved(before)
        won, lost = [e for e in ours if e not in theirs], [e for e in theirs if e not in ours]
        lines.append(
            f"- against its parent {entry.parent}: solved {len(won)} more"
            + (f" ({_named(won)})" if won else "")
            + f" and {len(lost)} no longer"
            + (f" ({_named(lost)})" if lost else "")
        )
    lines.append(f"\nTraces: `traces/{entry.id}.jsonl`")
    return "\n".join(lines) + "\n"


def _solved(trajectories: Sequence[Trajectory]) -> list[str]:
    solved = [t.example_id for t in trajectories if t.outcome is Outcome.PASS]
    return list(dict.fromkeys(solved))


def _named(examples: Sequence[str]) -> str:
    names = list(dict.fromkeys(examples))
    more = f", … {len(names) - EXAMPLES_NAMED} more" if len(names) > EXAMPLES_NAMED else ""
    return ", ".join(names[:EXAMPLES_NAMED]) + more


def _message(message: Message) -> dict[str, Json]:
    return {"role": message.role, "content": message.content}


def _common(a: Sequence[Message], b: Sequence[Message]) -> int:
    """Return how many messages both begin with; what passes a reply back counts by its text."""
    for index, (left, right) in enumerate(zip(a, b, strict=False)):
        if (left.role, left.content) != (right.role, right.content):
            return index
    return min(len(a), len(b))
