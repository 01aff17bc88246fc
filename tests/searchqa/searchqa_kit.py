"""Stand-ins for the search QA tests: a scripted model, a watched environment, trajectories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from whale_core.keys import DrawKey
from whale_core.records import Call, Example, Message, Outcome, Trajectory
from whale_harness import Reply, ToolError
from whale_searchqa.answers import exact_match
from whale_searchqa.domain import SearchQADomain

QUESTION, ANSWER, PLACE = "In what year was Otto Brandel born?", "1871", "Marlow"


def example(
    question: str = QUESTION, answers: Sequence[str] = (ANSWER,), **content: Any
) -> Example:
    return Example("x", {"question": question, "answers": list(answers), **content}, "g")


def call(text: str, finish: str = "end", messages: tuple[Message, ...] = ()) -> Call:
    nothing = np.zeros(0, dtype=np.int32)
    return Call(nothing, nothing, nothing.astype(np.float32), text, finish, "w", messages)


def trajectory(
    replies: Sequence[str],
    answer: str | None = None,
    record: Mapping[str, Any] | None = None,
    outcome: Outcome = Outcome.FAIL,
) -> Trajectory:
    """Return a finished rollout; the harness returned ``answer``, by default the last reply."""
    return Trajectory(
        example_id="x",
        harness_id="h",
        weights_id="w",
        key=DrawKey(1, "score", 0, 0, "x", 0),
        calls=tuple(map(call, replies)),
        events=(),
        answer=replies[-1] if answer is None and replies else answer,
        record=record or {"searches": [], "evidence": False},
        outcome=outcome,
    )


@define
class ScriptedModel:
    """Answers each call with ``reply(messages)`` and keeps what it was sent."""

    reply: Callable[[list[dict[str, Any]]], str]
    sent: list[list[dict[str, Any]]] = field(factory=list)
    tools: list[Any] = field(factory=list)
    replies: list[str] = field(factory=list)

    async def chat(
        self,
        messages: Sequence[Any],
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        tools: Any = None,
    ) -> Reply:
        assert max_tokens and not isinstance(stop, str)
        shown = [m.message() if isinstance(m, Reply) else dict(m) for m in messages]
        text = self.reply(shown)
        ends = [text.index(mark) + len(mark) for mark in stop if mark in text]
        text = text[: min(ends)] if ends else text
        self.sent.append(shown)
        self.tools.append(tools)
        self.replies.append(text)
        return Reply(text, "end", len(self.replies) - 1)


@define
class Tools:
    """The real environment as a harness sees it."""

    environment: Any

    async def call(self, name: str, /, **arguments: Any) -> Any:
        try:
            return await self.environment.call(name, arguments)
        except ValueError as error:
            raise ToolError(str(error)) from None


@define
class Played:
    """What came of an episode."""

    model: ScriptedModel
    answer: str
    record: Mapping[str, Any]

    def right(self, one: Example) -> bool:
        """Say whether the answer of the last reply is a reference; it must have been sampled."""
        from whale_searchqa.answers import committed

        found = committed(trajectory(self.model.replies, self.answer))
        return found is not None and exact_match(found, one.content["answers"])


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


def play(harness: Any, domain: SearchQADomain, one: Example, reply: Callable[..., str]) -> Played:
    """Run one episode with a scripted model."""
    environment = domain.environment(one)
    model = ScriptedModel(reply)
    answer = asyncio.run(harness.run(dict(environment.view()), model, Tools(environment)))
    return Played(model, answer, environment.record())
