"""A harness for small models: forcing moves one a line, a plain question, three worked turns."""

from __future__ import annotations

import re
from typing import Any

from whale_harness import BaseHarness, Env, Model, fill


class Harness(BaseHarness):
    """One move a call, the list of moves shown by effect."""

    SYSTEM_PROMPT = (
        "You solve chess puzzles. Answer by repeating one line of the list."
    )
    USER_PROMPT = "{observation}\nWhich move gives checkmate? Repeat its line."
    MAX_TURNS = 9  # model calls, retries included
    MAX_TOKENS = 16
    STOP = ("\n",)
    FORMAT_RETRIES = 0  # per episode; a second try costs much and wins little
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
        """Return a call's messages: opening, the observation, and after it a failed try.

        A second try so begins as the first did, which an engine need not compute again.
        """
        user = {"role": "user", "content": self.user_text(task)}
        return [*self.opening(), user, *(history[-2:] if feedback else [])]

    def opening(self) -> list[Any]:
        """Return the messages that begin every call."""
        messages: list[Any] = [{"role": "system", "content": self.SYSTEM_PROMPT}]
        for example in self.examples():
            messages.append({"role": "user", "content": self.user_text(example["view"])})
            answer = self.example_reply(example["move"])
            messages.append({"role": "assistant", "content": answer})
        return messages

    def example(self) -> dict[str, Any] | None:
        """Return a worked turn to show first: a public view and the move to answer."""
        listed = (
            "e3d2 Kd2 e3d3 Kd3 e3d4 Kd4 e3e2 Ke2 g6g7 g7 g8d5 Qxd5 g8e6 Qe6 g8f7 Qf7 g8f8 Qxf8+ "
            "g8g7 Qg7+ g8h7 Qh7# g8h8 Qh8+ h4h5 h5"
        )
        moves = listed.split()
        view = {
            "fen": "5qQ1/8/6Pk/3p4/7P/4K3/8/1r6 w - - 0 1",
            "side": "White",
            "board": "8 . . . . . q Q .\n7 . . . . . . . .\n6 . . . . . . P k\n5 . . . p . . . .\n"
            "4 . . . . . . . P\n3 . . . . K . . .\n2 . . . . . . . .\n1 . r . . . . . .\n"
            "  a b c d e f g h",
            "last_opponent_move": None,
            "accepted_moves": [],
            "move_number": 1,
            "legal_moves": [
                {"uci": uci, "san": san} for uci, san in zip(moves[::2], moves[1::2], strict=True)
            ],
        }
        return {"view": view, "move": {"uci": "g8h7", "san": "Qh7#"}}

    def examples(self) -> list[dict[str, Any]]:
        """Return the worked turns, which differ in side, piece and place of the answer."""
        rook = self.worked(
            "Black",
            "c8a8 Ra8 c8b8 Rb8 c8c5 Rxc5 c8c6 Rc6 c8c7 Rc7 c8d8 Rcd8 e8d8 Red8 e8e1 Re1# e8e2 Re2 "
            "e8e3 Re3 e8e4 Re4 e8e5 Re5 e8e6 Re6 e8e7 Re7 e8f8 Rf8 f7f5 f5 f7f6 f6 g7g5 g5 g7g6 g6 "
            "g8h8 Kh8 h7h5 h5 h7h6 h6",
            "Re1#",
        )
        queen = self.worked(
            "White",
            "b2a1 Ba1 b2a3 Ba3 b2c1 Bc1 b2c3 Bc3 b2d4 Bd4 b2e5 Be5 b2f6 Bf6 b2g7 Bxg7 g1f1 Kf1 "
            "g1f2 Kf2 g1h1 Kh1 g2g3 g3 g4a4 Qa4 g4b4 Qb4 g4c4 Qc4 g4d1 Qd1 g4d4 Qd4 g4e2 Qe2 "
            "g4e4 Qe4 g4e6 Qxe6 g4f3 Qf3 g4f4 Qf4 g4f5 Qf5 g4g3 Qg3 g4g5 Qg5 g4g6 Qg6 g4g7 Qxg7# "
            "g4h3 Qh3 g4h4 Qh4 g4h5 Qh5 h2h3 h3 h2h4 h4",
            "Qxg7#",
        )
        first = self.example()
        return [rook, queen, *([first] if first else [])]

    def worked(self, side: str, listed: str, answer: str) -> dict[str, Any]:
        """Return a worked turn made of a side, a list of moves and the move to answer."""
        words = listed.split()
        moves = [
            {"uci": uci, "san": san} for uci, san in zip(words[::2], words[1::2], strict=True)
        ]
        view = {
            "fen": "",
            "side": side,
            "board": "",
            "last_opponent_move": None,
            "accepted_moves": [],
            "move_number": 1,
            "legal_moves": moves,
        }
        return {"view": view, "move": next(move for move in moves if move["san"] == answer)}

    def user_text(self, task: dict[str, Any]) -> str:
        """Return the user message for a view."""
        return fill(self.USER_PROMPT, observation=self.observation(task))

    def observation(self, task: dict[str, Any]) -> str:
        """Return the view as text."""
        return "\n".join([task["side"] + " to move.", self.list_moves(task)])

    def list_moves(self, task: dict[str, Any]) -> str:
        """List captures and checks one a line with their effect, the other moves on one line."""
        lines, others = [], []
        for move in task["legal_moves"]:
            san = move["san"]
            effects = self.effects(san)
            if effects:
                lines.append(effects + ": " + san)
            else:
                others.append(san)
        return "\n".join(["Other moves: " + " ".join(others), "Forcing moves:", *lines])

    def effects(self, san: str) -> str:
        """Return in words what a move's notation says: capture, check, checkmate."""
        words = ["capture"] if "x" in san else []
        if san.endswith("#"):
            words.append("checkmate")
        elif san.endswith("+"):
            words.append("check")
        return " and ".join(words)

    def example_reply(self, move: dict[str, str]) -> str:
        """Return how the worked turn answers with ``move``."""
        return self.effects(move["san"]) + ": " + move["san"]

    def parse(self, text: str, task: dict[str, Any]) -> str | None:
        """Return the one move the text commits to: in tags, else the one listed move it names."""
        tagged = list(dict.fromkeys(re.findall(r"<move>\s*([^\s<>]+)", text)))
        if tagged:
            return tagged[0] if len(tagged) == 1 else None
        named = {move[form] for move in task["legal_moves"] for form in ("uci", "san")}
        words = [word.rstrip(".") for word in re.findall(r"[A-Za-z0-9=+#.-]+", text)]
        moves = list(dict.fromkeys(word for word in words if word in named))
        return moves[0] if len(moves) == 1 else None

    def format_feedback(self) -> str:
        """Return what to say to a reply without exactly one move."""
        return "That was not exactly one move. Repeat one line of the list."

    def illegal_feedback(self, move: str) -> str:
        """Return what to say to an illegal move."""
        return "That move is not legal here. Choose one of the legal moves."
