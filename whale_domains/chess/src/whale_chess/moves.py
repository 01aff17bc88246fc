"""Positions and moves as text: reading what a model wrote, showing what is legal."""

from __future__ import annotations

import re

import chess

UCI = re.compile(r"[a-h][1-8][a-h][1-8][qrbn]?", re.IGNORECASE)


def read_move(board: chess.Board, text: str) -> chess.Move | None:
    """Return the legal move that ``text`` names in UCI or SAN; None if there is no single one.

    SAN may lack its check mark or capture sign; castling may be written with zeros.
    """
    text = text.strip()
    try:
        move = board.parse_uci(text.lower()) if UCI.fullmatch(text) else board.parse_san(text)
    except ValueError:
        return None
    return move if move else None  # the null move ("--") is not a move


def describe(board: chess.Board, move: chess.Move) -> dict[str, str]:
    """Return a legal move in both notations."""
    return {"uci": move.uci(), "san": board.san(move)}


def legal_moves(board: chess.Board) -> list[dict[str, str]]:
    """Return all legal moves in both notations, sorted by UCI."""
    return [describe(board, move) for move in sorted(board.legal_moves, key=chess.Move.uci)]


def is_forcing(san: str) -> bool:
    """Say whether a move is a capture or gives check, from its SAN."""
    return "x" in san or san.endswith(("+", "#"))


def position_key(board: chess.Board) -> str:
    """Return what makes two positions the same one: piece placement and side to move."""
    return f"{board.board_fen()} {'w' if board.turn else 'b'}"


def diagram(board: chess.Board) -> str:
    """Return the board as text with ranks and files named, White below."""
    ranks = [f"{8 - row} {line}" for row, line in enumerate(str(board).splitlines())]
    return "\n".join([*ranks, "  a b c d e f g h"])
