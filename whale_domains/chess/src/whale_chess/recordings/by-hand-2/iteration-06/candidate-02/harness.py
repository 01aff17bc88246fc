"""A harness for small models: forcing moves one a line, a plain question, three worked turns."""

from __future__ import annotations

from typing import Any

from whale_harness import BaseHarness, Env, Model, fill


class Harness(BaseHarness):
    """One move a call, the list of moves shown by effect."""

    SYSTEM_PROMPT = (
        "You solve chess puzzles. Answer with one move from the list, in <mate></mate> tags."
    )
    USER_PROMPT = "{observation}\nWhich move gives checkmate? Copy it with its <mate></mate> tags."
    MAX_TURNS = 9  # model calls, retries included
    MAX_TOKENS = 16
    STOP = ("</mate>",)
    FORMAT_RETRIES = 2  # per episode; for replies that are no exact copy
    ORDERS = (  # of the groups: in the first look at a position and in the second and third
        ("other", "mate", "check", "capture"),
        ("other", "mate", "capture", "check"),
        ("capture", "mate", "check", "other"),
    )
    ILLEGAL_RETRIES = 0  # per episode

    async def run(self, task: dict[str, Any], model: Model, env: Env) -> str:
        """Ask for a move at a time until the puzzle ends or the retries are used up."""
        history: list[Any] = []
        feedback, look = "", 0
        format_retries, illegal_retries = self.FORMAT_RETRIES, self.ILLEGAL_RETRIES
        for _ in range(self.MAX_TURNS):
            messages = self.messages(task, history, feedback)
            reply = await model.chat(messages, max_tokens=self.MAX_TOKENS, stop=self.STOP)
            move = self.parse(reply.text, task)
            if move is None:
                if format_retries == 0:
                    return reply.text
                format_retries -= 1
                look += 1  # the failed reply is forgotten, the list is shown in another order
                task = {**task, "look": look}
                continue
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
        example = self.example()
        for turn in [*self.more_examples(), *([example] if example else [])]:
            messages.append({"role": "user", "content": self.user_text(turn["view"])})
            answer = self.example_reply(turn["move"])
            messages.append({"role": "assistant", "content": answer})
        return messages

    def more_examples(self) -> list[dict[str, Any]]:
        """Return shorter worked turns that come before the main one: views and moves to answer."""
        turns = [
            (
                "Black",
                "b3a3 Ka3 b3a4 Ka4 b3b4 Kb4 b3c2 Kc2 b3c3 Kc3 b3c4 Kc4 h2a2 Ra2+ h2b2 Rb2 h2c2 Rc2 "
                "h2d2 Rd2 h2e2 Re2 h2f2 Rf2 h2g2 Rg2 h2h1 Rh1# h2h3 Rh3 h2h4 Rh4 h2h5 Rh5 h2h6 Rh6",
                "Rh1#",
            ),
            (
                "White",
                "d2a5 Ba5 d2b4 Bb4 d2c1 Bc1 d2c3 Bc3# d2e1 Be1 d2e3 Be3 d2f4 Bf4 d2g5 Bg5 d2h6 Bh6 "
                "h2g1 Kg1 h2g2 Kg2 h2g3 Kg3 h2h1 Kh1 h2h3 Kh3",
                "Bc3#",
            ),
            (
                "Black",
                "b7a6 Ka6 b7a7 Ka7 b7a8 Ka8 b7b6 Kb6 b7b8 Kb8 b7c6 Kc6 b7c7 Kc7 b7c8 Kc8 e4c3 Nc3 "
                "e4c5 Nc5 e4d2 Nd2 e4d6 Nd6 e4f2 Nf2# e4f6 Nf6 e4g3 Ng3+ e4g5 Ng5",
                "Nf2#",
            ),
        ]
        return [
            {
                "view": {
                    "side": side,
                    "legal_moves": [
                        {"uci": uci, "san": san}
                        for uci, san in zip(words[::2], words[1::2], strict=True)
                    ],
                },
                "move": {"san": answer},
            }
            for side, words, answer in [(side, text.split(), san) for side, text, san in turns]
        ]

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

    def user_text(self, task: dict[str, Any]) -> str:
        """Return the user message for a view."""
        return fill(self.USER_PROMPT, observation=self.observation(task))

    def observation(self, task: dict[str, Any]) -> str:
        """Return the view as text."""
        return "\n".join([task["side"] + " to move.", self.list_moves(task)])

    def list_moves(self, task: dict[str, Any]) -> str:
        """List mates by SAN in the answer's tags, the others by UCI on a labelled line an effect."""
        order = self.ORDERS[task.get("look", 0) % len(self.ORDERS)]
        groups: dict[str, list[str]] = {name: [] for name in order}
        for move in task["legal_moves"]:
            san, uci = move["san"], move["uci"]
            if san.endswith("#"):
                groups["mate"].append(san)
            elif san.endswith("+"):
                groups["check"].append(uci)
            elif "x" in san:
                groups["capture"].append(uci)
            else:
                groups["other"].append(uci)
        groups = {name: sans for name, sans in groups.items() if sans}
        return "\n".join(
            f"<mate>{' '.join(sans)}</mate>" if name == "mate" else f"{name}: {' '.join(sans)}"
            for name, sans in groups.items()
        )

    def example_reply(self, move: dict[str, str]) -> str:
        """Return how the worked turn answers with ``move``."""
        return "<mate>" + move["san"] + "</mate>"

    def parse(self, text: str, task: dict[str, Any]) -> str | None:
        """Return the one move the tags hold, if it stands in the list sign for sign, or None."""
        head = text.split("</mate>")[0]
        words = (head.split("<mate>")[1] if head.count("<mate>") == 1 else head).split()
        named = {move[form] for move in task["legal_moves"] for form in ("uci", "san")}
        return words[0] if len(words) == 1 and words[0] in named else None

    def format_feedback(self) -> str:
        """Return what to say to a reply without exactly one move."""
        return "That was not exactly one move. Return one legal move in <mate></mate> tags."

    def illegal_feedback(self, move: str) -> str:
        """Return what to say to an illegal move."""
        return "That move is not legal here. Choose one of the legal moves."
