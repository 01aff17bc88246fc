"""One episode on a terminal, turn by turn, as it happens or as it was stored."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from whale_core.cli.text import block, percent, printable
from whale_core.records import Call, Json, Message, ToolEvent, Trajectory
from whale_core.rollout.policy import Turn

ARGUMENTS_LENGTH = 1000


class Transcript:
    """Prints turns, replies and environment calls; an executor's ``watch``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._calls: list[Call] = []
        self._shown: tuple[Message, ...] = ()

    def __call__(self, happened: Turn | Call | ToolEvent) -> None:
        """Print what happened."""
        if isinstance(happened, Turn):
            if self._calls and not happened.calls:
                self._line("again, since the first try could not be scored", "bold red")
                self._calls, self._shown = [], ()
            self._turn(happened.messages)
        elif isinstance(happened, Call):
            self._reply(happened)
        else:
            self._tool(happened)

    def stored(self, trajectory: Trajectory) -> None:
        """Print a whole stored episode, without its end."""
        events = list(trajectory.events)
        for number in range(len(trajectory.calls) + 1):
            for event in events:
                if event.after_call == number:
                    self._tool(event)
            if number < len(trajectory.calls):
                self._turn(trajectory.calls[number].messages)
                self._reply(trajectory.calls[number])

    def end(self, trajectory: Trajectory) -> None:
        """Print how the episode ended and what it cost."""
        self._heading("end")
        self._field("answer", "none" if trajectory.answer is None else repr(trajectory.answer))
        outcome = str(trajectory.outcome).replace("_", " ")
        if trajectory.reason is not None:
            outcome += f" before a verdict: {trajectory.reason}"
        self._field("outcome", outcome)
        if trajectory.verdict is not None:
            parts = ", ".join(f"{n} {v:.3g}" for n, v in trajectory.verdict.parts.items())
            self._field("reward", f"{trajectory.reward:.3g}{f' ({parts})' if parts else ''}")
        if trajectory.metrics:
            shown = (f"{name} {value:.3g}" for name, value in trajectory.metrics.items())
            self._field("metrics", ", ".join(shown))
        spent = trajectory.spent
        cached = percent(spent.cached_tokens / spent.prompt_tokens) if spent.prompt_tokens else "0"
        self._field(
            "spent",
            f"{spent.calls} model calls, {spent.prompt_tokens} prompt tokens ({cached} cached), "
            f"{spent.sampled_tokens} sampled tokens, {trajectory.cpu_seconds:.2f} s of the "
            "harness's CPU",
        )

    def _turn(self, messages: Sequence[Message]) -> None:
        """Print the messages of a model call, those of the call before it left out."""
        self._heading(f"turn {len(self._calls) + 1}")
        kept = 0
        while kept < min(len(messages), len(self._shown)) and messages[kept] == self._shown[kept]:
            kept += 1
        if kept:
            dropped = len(self._shown) - kept
            also = f", {dropped} taken out" if dropped else ""
            self._line(f"({kept} messages as before{also})", "dim")
        for message in messages[kept:]:
            if message.call is not None and message.call < len(self._calls):
                same = self._calls[message.call].text == message.content
                if same and message.role == "assistant":
                    self._line(f"assistant: (reply {message.call + 1}, unchanged)", "bold blue")
                    continue
            self._line(f"{message.role}:", "bold blue")
            self._body(message.content)
        self._shown = tuple(messages)

    def _reply(self, call: Call) -> None:
        self._calls.append(call)
        tokens = f"{len(call.token_ids)} tokens, " if len(call.token_ids) else ""
        self._line(f"model ({tokens}{call.finish_reason}):", "bold green")
        self._body(call.text)

    def _tool(self, event: ToolEvent) -> None:
        arguments = ", ".join(f"{name}={_brief(value)}" for name, value in event.arguments.items())
        result = f"refused: {event.error}" if event.error is not None else _brief(event.result)
        call = printable(f"{event.name}({arguments})", ARGUMENTS_LENGTH)
        self._line(f"environment: {call} → {printable(result, ARGUMENTS_LENGTH)}", "bold yellow")

    def _heading(self, title: str) -> None:
        self._line(f"── {title} " + "─" * (40 - len(title)), "dim")

    def _field(self, label: str, value: str) -> None:
        self._line(f"{label:<9}{printable(value, 2000)}", "")

    def _body(self, text: str) -> None:
        for line in block(text).split("\n"):
            self._line(f"  {line}", "")

    def _line(self, text: str, style: str) -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)


def _brief(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
