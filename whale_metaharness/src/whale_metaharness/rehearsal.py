"""A rehearsal in words: what a candidate did with replies that were recorded under another harness.

Nothing of the example's private content is told, unless references are revealed anyway.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from whale_core.records import Example, Json, Replayed
from whale_metaharness.evidence import turns

MOST_SHOWN = 20_000  # characters of a rehearsal


def rehearsal_text(replayed: Replayed, example: Example, reveal: bool) -> str:
    """Return what happened turn by turn, where it asked something else than what was recorded, and
    how it ended."""
    made = replayed.trajectory
    lines = [f"example {example.id}"]
    at = None if replayed.diverged is None else replayed.diverged[0] + 1
    for turn in turns(made):
        if turn["turn"] == at:
            lines.append(
                "--- from here on it asks something else than what was recorded: the replies are "
                "those to other messages"
            )
        lines += _turn_lines(turn)
    if at is not None and at > len(made.calls):
        assert replayed.diverged is not None
        lines.append(f"--- model call {at} has no recorded reply; it would send:")
        sent = replayed.diverged[1]
        lines += [_message_line({"role": each.role, "content": each.content}) for each in sent]
    if at is None:
        lines.append("it asked just what was recorded, at every turn")
    lines.append(
        f"ended: {made.outcome}"
        + (f", {made.reason}" if made.reason else "")
        + f"; reward {made.reward:g}; answer {json.dumps(made.answer, ensure_ascii=False)}"
    )
    if reveal:
        lines.append(f"reference: {json.dumps(dict(example.content), ensure_ascii=False)}")
    text = "\n".join(lines)
    if len(text) <= MOST_SHOWN:
        return text
    half = MOST_SHOWN // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _turn_lines(turn: Mapping[str, Json]) -> list[str]:
    lines = []
    if turn["turn"]:
        repeated = f" (after {turn['repeated']} as before)" if turn["repeated"] else ""
        lines.append(f"turn {turn['turn']}: the harness sent{repeated}")
        lines += [_message_line(message) for message in turn["sent"]]
        lines.append(f"the model wrote ({turn['finish']}): {turn['wrote']}")
    for event in turn.get("environment", ()):
        arguments = json.dumps(event["arguments"], ensure_ascii=False)
        came = (
            f"refused: {event['error']}"
            if "error" in event
            else json.dumps(event["result"], ensure_ascii=False)
        )
        lines.append(f"environment {event['call']}({arguments}) -> {came}")
    return lines


def _message_line(message: Mapping[str, Json]) -> str:
    return f"  [{message['role']}] {message['content']}"
