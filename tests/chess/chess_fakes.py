"""Stand-ins for the chess tests: two small puzzles, a scripted model, a harness loader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from whale_chess.environment import ChessEnvironment
from whale_core.keys import DrawKey
from whale_core.records import Call, Example, Message, Outcome, ToolEvent, Trajectory
from whale_harness import Reply

HEADER = "PuzzleId,FEN,Moves,Rating,RatingDeviation,Popularity,NbPlays,Themes,GameUrl,OpeningTags"
# White plays Qe8+ Rxe8 Rxe8#: two solver moves, one stored reply.
MATE_IN_TWO = {
    "puzzle": "two",
    "fen": "3r2k1/p4ppp/8/8/4Q3/8/5PPP/4R1K1 b - - 0 1",
    "moves": ["a7a6", "e4e8", "d8e8", "e1e8"],
}
MATE_IN_ONE = {
    "puzzle": "one",
    "fen": "6k1/p4ppp/8/8/8/8/5PPP/4R1K1 b - - 0 1",
    "moves": ["a7a6", "e1e8"],
}


def example(content: Mapping[str, Any]) -> Example:
    return Example(id="x", content=content, group="g")


@define
class ScriptedModel:
    """Answers each call with ``reply(messages)`` and keeps what it was sent."""

    reply: Callable[[list[dict[str, Any]]], str]
    sent: list[list[dict[str, Any]]] = field(factory=list)
    replies: list[str] = field(factory=list)

    async def chat(
        self, messages: Sequence[Any], max_tokens: int | None = None, stop: Sequence[str] = ()
    ) -> Reply:
        assert max_tokens and not isinstance(stop, str)
        shown = [m.message() if isinstance(m, Reply) else dict(m) for m in messages]
        text = self.reply(shown)
        for mark in stop:
            if mark in text:
                text = text[: text.index(mark) + len(mark)]
        self.sent.append(shown)
        self.replies.append(text)
        return Reply(text, "end", len(self.replies) - 1)


@define
class WatchedEnvironment:
    """Checks provenance on the way to the real environment, and keeps the events."""

    environment: ChessEnvironment
    model: ScriptedModel
    events: list[ToolEvent] = field(factory=list)

    async def call(self, name: str, /, **arguments: Any) -> Any:
        assert any(arguments["move"] in text for text in self.model.replies), "not sampled"
        result = self.environment.call(name, arguments)
        self.events.append(ToolEvent(name, arguments, result, len(self.model.replies)))
        return result


def build(source: str) -> Any:
    """Return the harness that ``source`` defines."""
    namespace: dict[str, Any] = {"__name__": "harness"}
    exec(compile(source, "harness.py", "exec"), namespace)
    return namespace["Harness"]()


def with_members(source: str, members: Mapping[str, str]) -> str:
    """Return ``source`` with class members added that take the place of the earlier ones."""
    indented = "".join(
        "\n" + "".join("    " + line if line.strip() else line for line in text.splitlines(True))
        for text in members.values()
    )
    return source.rstrip("\n") + "\n" + indented


def play(harness: Any, puzzle: Example, reply: Callable[..., str]) -> Trajectory:
    """Run one episode with a scripted model and return its trajectory (not verified)."""
    environment = ChessEnvironment(puzzle)
    model = ScriptedModel(reply)
    watched = WatchedEnvironment(environment, model)
    answer = asyncio.run(harness.run(dict(environment.view()), model, watched))
    return trajectory(model, watched, answer)


def trajectory(model: ScriptedModel, watched: WatchedEnvironment, answer: str) -> Trajectory:
    nothing = np.zeros(0, dtype=np.int32)
    calls = tuple(
        Call(
            prompt_ids=nothing,
            token_ids=nothing,
            logprobs=nothing.astype(np.float32),
            text=text,
            finish_reason="end",
            weights_id="w",
            messages=tuple(Message(m["role"], m["content"], m.get("call")) for m in sent),
        )
        for text, sent in zip(model.replies, model.sent, strict=True)
    )
    return Trajectory(
        example_id="x",
        harness_id="h",
        weights_id="w",
        key=DrawKey(1, "score", 0, 0, "x", 0),
        calls=calls,
        events=tuple(watched.events),
        answer=answer,
        record=watched.environment.record(),
        outcome=Outcome.PASS,
    )
