"""The published base harness in short: the list of legal moves is all that is shown."""

from __future__ import annotations

import re
from typing import Any

from whale_harness import BaseHarness, Env, Model, fill


class Harness(BaseHarness):
    """One move a call, the legal moves shown, no second try."""

    SYSTEM_PROMPT = (
        "You solve a chess puzzle. Choose one legal move at a time, only from what is shown. "
        "Do not claim engine analysis. Give exactly one move."
    )
    USER_PROMPT = "{observation}\nReturn one move in <move></move> tags, without explanation."
    MAX_TURNS = 9  # model calls, retries included
    MAX_TOKENS = 24
    STOP = ()
    FORMAT_RETRIES = 0  # per episode
    ILLEGAL_RETRIES = 0  # per episode

    async def run(self, task: dict[str, Any], model: Model, env: Env) -> str:
        """Ask for a move at a time until the puzzle ends or the retries are used up."""
        history: list[Any] = []
        feedback = ""
        format_retries, illegal_retries = self.FORMAT_RETRIES, self.ILLEGAL_RETRIES
        for _ in range(self.MAX_TURNS):
            messages = self.messages(task, history, feedback)
            reply = await model.chat(messages, max_tokens=self.MAX_TOKENS, stop=self.STOP)
            move = self.parse(reply.text, task)
            if move is None:
                if format_retries == 0:
                    return reply.text
                format_retries -= 1
                feedback = told = self.format_feedback()
            else:
                result = await env.call("move", move=move)
                if result["status"] == "illegal":
                    if illegal_retries == 0:
                        return reply.text
                    illegal_retries -= 1
                    feedback = told = self.illegal_feedback(move)
                elif result["status"] == "continue":
                    task, feedback, told = result["view"], "", result["message"]
                else:
                    return reply.text
            history += [reply, {"role": "user", "content": told}]
        return reply.text

    def messages(self, task: dict[str, Any], history: list[Any], feedback: str) -> list[Any]:
        """Return a call's messages: opening, earlier replies with feedback, the new observation."""
        user = {"role": "user", "content": self.user_text(task)}
        if feedback:
            user["content"] = feedback + "\n\n" + user["content"]
        return [*self.opening(), *history, user]

    def opening(self) -> list[Any]:
        """Return the messages that begin every call."""
        messages: list[Any] = [{"role": "system", "content": self.SYSTEM_PROMPT}]
        example = self.example()
        if example:
            messages.append({"role": "user", "content": self.user_text(example["view"])})
            answer = self.example_reply(example["move"])
            messages.append({"role": "assistant", "content": answer})
        return messages

    def example(self) -> dict[str, Any] | None:
        """Return a worked turn to show first, ``{"view": …, "move": …}``; None: no example."""
        return None

    def user_text(self, task: dict[str, Any]) -> str:
        """Return the user message for a view."""
        return fill(self.USER_PROMPT, observation=self.observation(task))

    def observation(self, task: dict[str, Any]) -> str:
        """Return the view as text."""
        return "\n".join([task["side"] + " to move.", self.list_moves(task)])

    def list_moves(self, task: dict[str, Any]) -> str:
        """Return all legal moves as text."""
        return "Legal moves: " + ", ".join(move["san"] for move in task["legal_moves"])

    def example_reply(self, move: dict[str, str]) -> str:
        """Return how the worked turn answers with ``move``."""
        return "<move>" + move["san"] + "</move>"

    def parse(self, text: str, task: dict[str, Any]) -> str | None:
        """Return the one move the text commits to, as written; None if there is none or several."""
        uci = r"\b[a-h][1-8][a-h][1-8][qrbn]?\b"
        tagged = re.findall(r"<move>\s*([^<>]*?)\s*</move>", text)
        bracketed = re.findall(r"\[(" + uci + r")\]", text)
        for found in (tagged, bracketed, re.findall(uci, text)):
            moves = list(dict.fromkeys(found))
            if moves:
                return moves[0] if len(moves) == 1 and moves[0] else None
        return None

    def format_feedback(self) -> str:
        """Return what to say to a reply without exactly one move."""
        return "That was not exactly one move. Return one legal move in <move></move> tags."

    def illegal_feedback(self, move: str) -> str:
        """Return what to say to an illegal move."""
        return "That move is not legal here. Choose one of the legal moves."
