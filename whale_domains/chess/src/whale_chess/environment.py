"""One episode: the public view of a puzzle and the tool ``move``."""

from __future__ import annotations

from collections.abc import Mapping

import chess

from whale_chess.line import Line, Status
from whale_chess.moves import diagram, legal_moves
from whale_core.records import Example, Json
from whale_core.roles import Tool

MOVE = Tool(
    name="move",
    description="Play a move, in UCI (e2e4) or SAN (e4), written exactly as the model wrote it. "
    "Returns status, message and, if the puzzle goes on after a right move, the new view.",
    parameters={"move": "str"},
    sampled=("move",),
)

MESSAGES = {
    Status.CONTINUE: "Right. The opponent replied.",
    Status.SOLVED: "Solved.",
    Status.WRONG: "That legal move is not the solution. The puzzle is lost.",
    Status.ILLEGAL: "That is not a legal move in this position.",
    Status.OVER: "The puzzle is over.",
}


class ChessEnvironment:
    """An episode of one puzzle. Ends when the line is solved, when a legal move is wrong, or after
    more than ten illegal attempts."""

    def __init__(self, example: Example) -> None:
        """Set up the position after the opponent's first move."""
        self._line = Line.of(example.content)
        self._start = self._line.board.fen()
        self._attempts: list[dict[str, str]] = []

    def view(self) -> Mapping[str, Json]:
        """Return what is visible: position, last reply, accepted moves, all legal moves."""
        line = self._line
        return {
            "fen": line.board.fen(),
            "side": "White" if line.board.turn == chess.WHITE else "Black",
            "board": diagram(line.board),
            "last_opponent_move": line.last_reply,
            "accepted_moves": list(line.accepted),
            "move_number": len(line.accepted) + 1,
            "legal_moves": legal_moves(line.board),
        }

    def call(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """Attempt ``arguments["move"]``; raise ``ValueError`` for anything but one string."""
        if name != MOVE.name:
            raise ValueError(f"there is no tool {name!r}; the only tool is 'move'")
        if set(arguments) != {"move"} or not isinstance(arguments["move"], str):
            raise ValueError("move takes one argument, move, a string")
        was_open = self._line.open
        status = self._line.attempt(arguments["move"])
        if was_open:
            self._attempts.append({"move": arguments["move"], "status": status.value})
        return {
            "status": status.value,
            "message": MESSAGES[status],
            "view": self.view() if status is Status.CONTINUE else None,
        }

    def record(self) -> Mapping[str, Json]:
        """Return the start position, every attempt with its status, and whether it was solved."""
        return {
            "start": self._start,
            "attempts": list(self._attempts),
            "solved": self._line.solved,
        }
