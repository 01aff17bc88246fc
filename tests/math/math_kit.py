"""Stand-ins for the math tests: a scripted model, the real environment, trajectories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from whale_core.keys import DrawKey
from whale_core.records import Call, Example, Message, Outcome, ToolEvent, Trajectory
from whale_harness import Reply, ToolError
from whale_math.environment import MathEnvironment
from whale_math.python.result import Result

SUM = Example("x", {"problem": "What is 20 + 22?", "answer": "42"}, "g")


def trajectory(
    *replies: str, answer: str | None = None, events: Sequence[ToolEvent] = ()
) -> Trajectory:
    """Return an episode with these replies; the answer is the last one if none is given."""
    nothing = np.zeros(0, dtype=np.int32)
    calls = tuple(
        Call(
            prompt_ids=nothing,
            token_ids=nothing,
            logprobs=nothing.astype(np.float32),
            text=text,
            finish_reason="end",
            weights_id="w",
            messages=(Message("user", "?"),),
        )
        for text in replies
    )
    return Trajectory(
        example_id="x",
        harness_id="h",
        weights_id="w",
        key=DrawKey(1, "score", 0, 0, "x", 0),
        calls=calls,
        events=tuple(events),
        answer=replies[-1] if answer is None and replies else answer,
        record={},
        outcome=Outcome.PASS,
    )


@define
class Echo:
    """Stands for the tool where a test is about the harness: prints what it is told to."""

    result: Result = field(factory=lambda: Result("42\n", "", 0, "finished"))
    ran: list[tuple[str, bool]] = field(factory=list)

    async def run(self, code: str, show_last: bool) -> Result:
        self.ran.append((code, show_last))
        return self.result

    async def probe(self) -> None: ...

    async def close(self) -> None: ...


@define
class ScriptedModel:
    """Answers with the texts in turn, then with the last for ever, and keeps what it was sent."""

    texts: Sequence[str]
    sent: list[list[dict[str, Any]]] = field(factory=list)
    tools: list[Any] = field(factory=list)

    @property
    def replies(self) -> list[str]:
        return [self._text(index) for index in range(len(self.sent))]

    def _text(self, index: int) -> str:
        return self.texts[min(index, len(self.texts) - 1)]

    async def chat(
        self,
        messages: Sequence[Any],
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        tools: Any = None,
    ) -> Reply:
        assert max_tokens and not isinstance(stop, str)
        self.sent.append([m.message() if isinstance(m, Reply) else dict(m) for m in messages])
        self.tools.append(tools)
        return Reply(self._text(len(self.sent) - 1), "end", len(self.sent) - 1)


@define
class WatchedEnvironment:
    """Checks provenance on the way to the real environment, and keeps the events."""

    environment: MathEnvironment
    model: ScriptedModel
    events: list[ToolEvent] = field(factory=list)

    async def call(self, name: str, /, **arguments: Any) -> Any:
        assert any(arguments["code"] in text for text in self.model.replies), "not sampled"
        try:
            result = await self.environment.call(name, arguments)
        except ValueError as error:
            raise ToolError(str(error)) from None
        self.events.append(ToolEvent(name, arguments, result, len(self.model.sent)))
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


@define
class Played:
    """An episode: what the model was sent, what was run, and the answer."""

    model: ScriptedModel
    tool: Echo
    events: list[ToolEvent]
    answer: str


def play(harness: Any, *texts: str, tool: Echo | None = None, example: Example = SUM) -> Played:
    """Run one episode with scripted replies; the answer must be a span of them."""
    tool = tool or Echo()
    model = ScriptedModel(texts)
    watched = WatchedEnvironment(MathEnvironment(example, tool), model)
    answer = asyncio.run(harness.run(dict(watched.environment.view()), model, watched))
    assert any(answer in text for text in model.replies), "the answer is not sampled"
    return Played(model, tool, watched.events, answer)
