"""Episodes turn by turn: what the harness sent, what the model wrote, what came back, and which of
it was trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence

from whale_core.evidence.report.blocks import definitions, folded, note
from whale_core.evidence.report.episodes import RULE, Episode, episodes_of
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag
from whale_core.evidence.report.words import count, plural
from whale_core.records import Call, Json, Message, ToolEvent, Trajectory

TEXT = 6_000  # characters of one message, reply or result, at most
ENDED = {
    "end": "ended its turn",
    "stop": "ended by a stop string",
    "length": "cut at the length limit",
}
TURNS = 24  # of an episode, at most


def trajectories(run: ReportedRun) -> Markup:
    """Return the chosen episodes, each folded."""
    found = episodes_of(run)
    if not found:
        return note("No rollout that may be shown has been stored yet. ", RULE)
    return joined(
        note(RULE, " ", tag("span", "Marked text", class_="trained"), " was trained on."),
        [_episode(each, index) for index, each in enumerate(found)],
    )


def _episode(episode: Episode, index: int) -> Markup:
    trajectory = episode.trajectory
    passed = trajectory.outcome == "pass"
    summary = joined(
        f"phase {episode.phase} ({episode.kind}): ",
        tag("span", "passed" if passed else "failed", class_="won" if passed else "lost"),
        f", reward {trajectory.reward:.3g}, ",
        clipped(trajectory.example_id, 80),
        f", harness {episode.harness}",
    )
    return folded(
        f"episode-{index}", summary, note(episode.learned), *_turns(episode), _end(trajectory)
    )


def _turns(episode: Episode) -> list[Content]:
    trajectory = episode.trajectory
    parts: list[Content] = []
    shown: tuple[Message, ...] = ()
    for number, call in enumerate(trajectory.calls[:TURNS]):
        parts += [_tool(event) for event in trajectory.events if event.after_call == number]
        parts += _sent(call.messages, shown, trajectory.calls[:number])
        parts.append(_reply(call, number in episode.trained))
        shown = call.messages
    left = len(trajectory.calls) - TURNS
    if left > 0:
        return [*parts, note(f"{left} more turns are not shown.")]
    last = len(trajectory.calls)
    return [*parts, *(_tool(event) for event in trajectory.events if event.after_call >= last)]


def _sent(
    messages: Sequence[Message], before: Sequence[Message], calls: Sequence[Call]
) -> list[Content]:
    """Return what the harness sent that the call before had not: unchanged replies are named."""
    kept = 0
    while kept < min(len(messages), len(before)) and messages[kept] == before[kept]:
        kept += 1
    parts: list[Content] = []
    if kept:
        dropped = len(before) - kept
        also = f", {dropped} taken out" if dropped else ""
        parts.append(note(f"(the first {kept} messages as before{also})"))
    for message in messages[kept:]:
        known = message.call is not None and message.call < len(calls)
        if known and calls[message.call or 0].text == message.content:
            parts.append(note(f"(reply {(message.call or 0) + 1} passed back unchanged)"))
            continue
        text = tag("pre", clipped(message.content, TEXT))
        parts.append(_block("sent", f"harness → model, as {message.role}", text))
    return parts


def _reply(call: Call, trained: bool) -> Markup:
    words = (
        f"model, {plural(len(call.token_ids), 'token')}, {ENDED.get(call.finish_reason, 'ended')}"
    )
    if call.rejected:
        words += ", rejected by the harness"
    words += ", trained on" if trained else ""
    text = clipped(call.text, TEXT)
    return _block(
        "model", words, tag("pre", tag("span", text, class_="trained") if trained else text)
    )


def _tool(event: ToolEvent) -> Markup:
    arguments = ", ".join(f"{name}={_json(value)}" for name, value in event.arguments.items())
    result = f"refused: {event.error}" if event.error is not None else _json(event.result)
    return _block(
        "tool",
        "harness → environment → harness",
        tag("pre", clipped(f"{event.name}({arguments})", TEXT), "\n→ ", clipped(result, TEXT)),
    )


def _block(kind: str, who: Content, text: Content) -> Markup:
    return tag("div", tag("div", who, class_="who"), text, class_=f"turn {kind}")


def _end(trajectory: Trajectory) -> Markup:
    answer = "none" if trajectory.answer is None else trajectory.answer
    facts: dict[str, Content] = {"answer": tag("code", clipped(answer, 1_000))}
    if trajectory.reason is not None:
        facts["ended before a verdict"] = clipped(trajectory.reason, 500)
    if trajectory.verdict is not None and trajectory.verdict.parts:
        facts["verdict"] = clipped(_named(trajectory.verdict.parts), 500)
    if trajectory.metrics:
        facts["behaviour"] = clipped(_named(trajectory.metrics), 500)
    spent = trajectory.spent
    facts["spent"] = (
        f"{plural(spent.calls, 'model call')}, {count(spent.prompt_tokens)} prompt tokens "
        f"({count(spent.cached_tokens)} cached), {count(spent.sampled_tokens)} sampled"
    )
    key = trajectory.key
    facts["draw"] = clipped(f"{key.purpose}, cycle {key.cycle}, {key.step}, draw {key.draw}", 200)
    return definitions(facts)


def _named(values: Json) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items())


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
