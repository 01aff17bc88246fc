"""The rules of a puzzle: one reference line, to be found move by move.

The environment plays by these rules and the verifier replays by them, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import chess
from attrs import define, field

from whale_chess.moves import describe, read_move

ILLEGAL_RETRIES = 10


class Status(StrEnum):
    """What came of an attempt. Only ``continue`` and ``illegal`` leave the episode open."""

    CONTINUE = "continue"
    SOLVED = "solved"
    WRONG = "wrong"
    ILLEGAL = "illegal"
    OVER = "over"


@define
class Line:
    """A puzzle being solved: the position, what is left of the line, how the episode stands."""

    board: chess.Board
    rest: Sequence[chess.Move]  # solver's move, stored reply, solver's move, …
    last_reply: Mapping[str, str] | None = None
    accepted: list[dict[str, str]] = field(factory=list)
    illegal: int = 0
    open: bool = True

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Line:
        """Start the puzzle of an example's private content.

        The stored position is the one before the opponent's first move, which is played here.
        """
        board = chess.Board(content["fen"])
        first, *rest = (chess.Move.from_uci(move) for move in content["moves"])
        shown = describe(board, first)
        board.push(first)
        return cls(board, rest, shown)

    @property
    def solver_moves(self) -> int:
        """How many moves of the line are the solver's, the played ones included."""
        return len(self.accepted) + (len(self.rest) + 1) // 2

    @property
    def solved(self) -> bool:
        """Whether the whole line was played."""
        return not self.rest

    def attempt(self, text: str) -> Status:
        """Take one attempted move as the model wrote it, and play the stored reply if it is right.

        A legal move that is not the reference move loses at once, an equally good one too.
        """
        if not self.open:
            return Status.OVER
        move = read_move(self.board, text)
        if move is None:
            self.illegal += 1
            self.open = self.illegal <= ILLEGAL_RETRIES
            return Status.ILLEGAL if self.open else Status.OVER
        if move != self.rest[0]:
            self.open = False
            return Status.WRONG
        self.accepted.append(describe(self.board, move))
        self.board.push(move)
        if len(self.rest) == 1:
            self.rest = ()
            self.open = False
            return Status.SOLVED
        reply = self.rest[1]
        self.last_reply = describe(self.board, reply)
        self.board.push(reply)
        self.rest = self.rest[2:]
        return Status.CONTINUE
