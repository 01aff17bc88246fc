"""A harness for small models: one worked problem, one short program, then the boxed answer."""

from __future__ import annotations

import re
from typing import Any

from whale_harness import BaseHarness, Env, Model, ToolError, fill


class Harness(BaseHarness):
    """One short program, its output, and the answer in a box."""

    SYSTEM_PROMPT = (
        "You solve problems with Python. Write one short program in <code></code>. When you see "
        "its output, give the answer in \\boxed{}."
    )
    USER_PROMPT = "{problem}\nRead it again: {problem}"
    MAX_TURNS = 2  # model calls
    MAX_TOKENS = 24
    STOP = ("</code>",)
    FEEDBACK_ROLE = "user"
    SHOW_LAST = True  # print the value of a program's last expression
    OUTPUT = 400  # characters of a program's output that are shown

    async def run(self, task: dict[str, Any], model: Model, env: Env) -> str:
        """Run the programs that replies hold until a reply is final; answer from the last one."""
        history: list[Any] = []
        for turn in range(1, self.MAX_TURNS + 1):
            reply = await model.chat(
                self.messages(task, history),
                max_tokens=self.MAX_TOKENS,
                stop=self.STOP,
                tools=self.tools(),
            )
            told = None
            if turn < self.MAX_TURNS and not self.final(reply.text):
                told = await self.respond(reply.text, env)
            if told is None:
                break
            history += [reply, told]
        return self.answer(reply.text)

    def messages(self, task: dict[str, Any], history: list[Any]) -> list[Any]:
        """Return a call's messages: opening, the problem, replies and what was said to them."""
        return [*self.opening(), {"role": "user", "content": self.user_text(task)}, *history]

    def opening(self) -> list[Any]:
        """Return the messages that begin every call."""
        system = [{"role": "system", "content": self.SYSTEM_PROMPT}] if self.SYSTEM_PROMPT else []
        return [*system, *self.example()]

    def example(self) -> list[Any]:
        """Return the messages of a worked problem to show first."""
        return self.turn("What is 61 - 18?", "61 - 18", "43")

    def turn(self, problem: str, term: str, value: str) -> list[Any]:
        """Return the messages of a worked problem: ``term`` is what its program prints."""
        return [
            {"role": "user", "content": self.user_text({"problem": problem})},
            {"role": "assistant", "content": "<code>print(" + term + ")</code>"},
            {"role": "user", "content": "Output: " + value},
            {"role": "assistant", "content": "\\boxed{" + value + "}"},
        ]

    def user_text(self, task: dict[str, Any]) -> str:
        """Return the message that puts the problem."""
        return fill(self.USER_PROMPT, problem=task["problem"])

    def tools(self) -> list[Any] | None:
        """Return tool schemas for the chat template; None: the protocol is text."""
        return None

    def program(self, text: str) -> tuple[str, bool] | None:
        """Return the program of a reply, exactly as written, and whether it is quoted JSON."""
        found = re.search(r"<code>(.*?)</code>", text, re.DOTALL)
        return (found[1], False) if found and found[1].strip() else None

    def final(self, text: str) -> bool:
        """Say whether a reply ends the episode though a program in it has not been run."""
        return "\\boxed{" in text

    async def respond(self, text: str, env: Env) -> dict[str, Any] | None:
        """Return what to say to a reply: its program's output, or a nudge; None: nothing."""
        program = self.program(text)
        if program is None:
            nudge = self.nudge(text)
            return {"role": "user", "content": nudge} if nudge else None
        code, quoted = program
        try:
            result = await env.call("python", code=code, show_last=self.SHOW_LAST, quoted=quoted)
        except ToolError as error:
            return {"role": self.FEEDBACK_ROLE, "content": str(error)}
        return {"role": self.FEEDBACK_ROLE, "content": self.feedback(result)}

    def feedback(self, result: dict[str, Any]) -> str:
        """Return what to show of a program's run: its output, or the end of its error."""
        if result["exit_status"] == 0:
            return "Output: " + (result["stdout"].strip()[: self.OUTPUT] or "nothing was printed")
        error: list[str] = result["stderr"].strip().splitlines()
        return "Error: " + (error[-1][: self.OUTPUT] if error else str(result["status"]))

    def nudge(self, text: str) -> str:
        """Return what to say to a reply without a program: nothing, it ends the episode.

        A second try costs much and wins little here.
        """
        return ""

    def answer(self, text: str) -> str:
        """Return the final answer, a span of the last reply: all of it."""
        return text
