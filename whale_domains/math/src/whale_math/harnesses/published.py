"""The published base harness: two turns, a boxed answer, the tool through the chat template.

For models whose chat template takes ``tools=``; with others the first call is refused.
"""

from __future__ import annotations

import re
from typing import Any

from whale_harness import BaseHarness, Env, Model, ToolError, fill


class Harness(BaseHarness):
    """One program, its output, and the answer."""

    SYSTEM_PROMPT = ""
    USER_PROMPT = "{problem}\nPut the final answer in \\boxed{}."
    MAX_TURNS = 2  # model calls
    MAX_TOKENS = 900
    STOP = ()
    FEEDBACK_ROLE = "tool"
    SHOW_LAST = True  # print the value of a program's last expression
    OUTPUT = 4000  # characters of a program's output that are shown

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
        """Return the messages of worked problems to show first; none here."""
        return []

    def turn(self, problem: str, term: str, value: str) -> list[Any]:
        """Return the messages of a worked problem: ``term`` is what its program prints."""
        call = '{"name": "code_interpreter", "arguments": {"code": "print(' + term + ')"}}'
        return [
            {"role": "user", "content": self.user_text({"problem": problem})},
            {"role": "assistant", "content": "<tool_call>\n" + call + "\n</tool_call>"},
            {"role": "tool", "content": value},
            {"role": "assistant", "content": "\\boxed{" + value + "}"},
        ]

    def user_text(self, task: dict[str, Any]) -> str:
        """Return the message that puts the problem."""
        return fill(self.USER_PROMPT, problem=task["problem"])

    def tools(self) -> list[Any] | None:
        """Return tool schemas for the chat template."""
        code = {"type": "string", "description": "The program; what it prints is returned."}
        parameters = {"type": "object", "properties": {"code": code}, "required": ["code"]}
        function = {
            "name": "code_interpreter",
            "description": "Runs a Python program. Nothing is kept from one call to the next.",
            "parameters": parameters,
        }
        return [{"type": "function", "function": function}]

    def program(self, text: str) -> tuple[str, bool] | None:
        """Return the program of a tool call, exactly as written, and whether it is quoted JSON.

        Templates have models call tools in JSON or in tags. Of a fence in the code, the first
        block is the program.
        """
        tagged = re.search(r"<parameter=code>\n?(.*?)\n?</parameter>", text, re.DOTALL)
        called = re.search(r'<tool_call>.*?"code"\s*:\s*"((?:[^"\\]|\\.)*)"', text, re.DOTALL)
        found = tagged or called
        if found is None:
            return None
        code = found[1]
        fenced = re.search(r"```(?:python|py)?[ \t]*(?:\n|\\n)(.*?)```", code, re.DOTALL)
        code = fenced[1] if fenced else code
        return (code, tagged is None) if code.strip() else None

    def final(self, text: str) -> bool:
        """Say whether a reply ends the episode though a program in it has not been run."""
        return False

    async def respond(self, text: str, env: Env) -> dict[str, Any] | None:
        """Return what to say to a reply: what came of each of its tool calls, in order; or a nudge;
        None: nothing."""
        begun = "<tool_call>" if "<tool_call>" in text else "<function="
        calls = re.findall(begun + ".*?(?=" + begun + r"|\Z)", text, re.DOTALL) or [text]
        programs = [(call, self.program(call)) for call in calls]
        if not any(program for _, program in programs):
            nudge = self.nudge(text)
            return {"role": "user", "content": nudge} if nudge else None
        told = []
        for call, program in programs:
            if program is None:
                told.append(self.nudge(call))
                continue
            code, quoted = program
            try:
                result = await env.call(
                    "python", code=code, show_last=self.SHOW_LAST, quoted=quoted
                )
            except ToolError as error:
                told.append(str(error))
            else:
                told.append(self.feedback(result))
        return {"role": self.FEEDBACK_ROLE, "content": "\n".join(filter(None, told))}

    def feedback(self, result: dict[str, Any]) -> str:
        """Return what to show of a program's run."""
        shown: str = (result["stdout"] + result["stderr"]).strip()[: self.OUTPUT]
        if shown:
            return shown
        return "no output" if result["status"] == "finished" else str(result["status"])

    def nudge(self, text: str) -> str:
        """Return what to say to a tool call without a program; nothing: it ends the episode."""
        if "<tool_call>" in text or "<function=" in text:
            return "[parse error] The tool call could not be read: code_interpreter takes code."
        return ""

    def answer(self, text: str) -> str:
        """Return the final answer, a span of the last reply: all of it."""
        return text
