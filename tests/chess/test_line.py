from __future__ import annotations

import chess
import pytest
from chess_fakes import MATE_IN_ONE, MATE_IN_TWO, example
from hypothesis import given
from hypothesis import strategies as st

from whale_chess.environment import ChessEnvironment
from whale_chess.line import ILLEGAL_RETRIES, Line, Status
from whale_chess.moves import is_forcing, legal_moves, read_move


def test_the_opponents_first_move_is_played_before_the_solver_acts():
    line = Line.of(MATE_IN_TWO)
    assert line.last_reply == {"uci": "a7a6", "san": "a6"}
    assert line.board.turn == chess.WHITE and line.solver_moves == 2 and not line.solved


def test_a_line_is_solved_move_by_move_with_stored_replies():
    line = Line.of(MATE_IN_TWO)
    assert line.attempt("Qe8+") is Status.CONTINUE
    assert line.last_reply == {"uci": "d8e8", "san": "Rxe8"}
    assert line.attempt("e1e8") is Status.SOLVED
    assert line.solved and line.solver_moves == 2 and line.attempt("Kf1") is Status.OVER


def test_a_legal_move_that_is_not_the_reference_move_loses_at_once():
    line = Line.of(MATE_IN_TWO)
    assert line.attempt("Kf1") is Status.WRONG
    assert line.attempt("Qe8+") is Status.OVER and not line.solved


def test_another_mate_loses_too():
    two_mates = {"fen": "6k1/R4ppp/2p5/8/8/8/8/KR6 b - - 0 1", "moves": ["c6c5", "a7a8"]}
    line = Line.of(two_mates)
    assert {m["san"] for m in legal_moves(line.board) if m["san"][-1] == "#"} == {"Ra8#", "Rb8#"}
    assert line.attempt("Rb8#") is Status.WRONG


def test_illegal_attempts_leave_the_position_until_the_cap():
    line = Line.of(MATE_IN_ONE)
    for _ in range(ILLEGAL_RETRIES):
        assert line.attempt("Qh8") is Status.ILLEGAL
    assert line.attempt("nonsense") is Status.OVER
    assert line.attempt("Re8#") is Status.OVER and not line.solved


@pytest.mark.parametrize(
    "text", ["Re8#", "Re8+", "Re8", " Re8# ", "e1e8", "E1E8", "R1e8", "Re1e8", "Re1-e8#"]
)
def test_a_move_may_be_written_in_several_ways(text: str):
    assert Line.of(MATE_IN_ONE).attempt(text) is Status.SOLVED


@pytest.mark.parametrize("text", ["O-O", "0-0", "e1g1", "O-O+", "Kg1"])
def test_castling(text: str):
    board = chess.Board("4k3/8/8/8/8/8/8/4K2R w K - 0 1")
    move = read_move(board, text)
    assert (move.uci() if move else None) == (None if text == "Kg1" else "e1g1")


@pytest.mark.parametrize("text", ["e7e8q", "e8=Q", "e8Q", "E7E8Q", "e7e8=Q"])
def test_promotion(text: str):
    move = read_move(chess.Board("8/4P1k1/8/8/8/8/8/4K3 w - - 0 1"), text)
    assert move is not None and move.uci() == "e7e8q"


@pytest.mark.parametrize("text", ["", "--", "0000", "Z0", "@@@@", "e7e8", "Rd1", "<move>", "e1 e8"])
def test_what_names_no_single_legal_move_is_none(text: str):
    two_rooks = chess.Board("8/8/8/8/8/2k5/8/R3K2R w - - 0 1")  # Rd1 is not the only rook move
    two_rooks.set_piece_at(chess.E1, None)
    two_rooks.set_piece_at(chess.E5, chess.Piece.from_symbol("K"))
    assert read_move(two_rooks, text) is None


@given(st.text())
def test_any_text_can_be_attempted(text: str):
    assert Line.of(MATE_IN_ONE).attempt(text) in {Status.ILLEGAL, Status.WRONG, Status.SOLVED}


def test_forcing_is_read_off_the_notation():
    assert [san for san in ("e4", "exd5", "Qe8+", "Re8#", "O-O") if is_forcing(san)] == [
        "exd5",
        "Qe8+",
        "Re8#",
    ]


def test_the_view_shows_everything_public_and_nothing_else():
    view = ChessEnvironment(example(MATE_IN_TWO)).view()
    board = chess.Board(view["fen"])
    assert view["side"] == "White" and view["move_number"] == 1
    assert view["board"].splitlines()[0] == "8 . . . r . . k ."
    assert view["board"].splitlines()[-1] == "  a b c d e f g h"
    assert view["last_opponent_move"] == {"uci": "a7a6", "san": "a6"}
    shown = [move["uci"] for move in view["legal_moves"]]
    assert shown == sorted(move.uci() for move in board.legal_moves)
    assert all(board.parse_san(m["san"]).uci() == m["uci"] for m in view["legal_moves"])
    assert set(view) == {
        "fen",
        "side",
        "board",
        "last_opponent_move",
        "accepted_moves",
        "move_number",
        "legal_moves",
    }


def test_the_tool_returns_the_next_view_only_when_the_puzzle_goes_on():
    environment = ChessEnvironment(example(MATE_IN_TWO))
    assert environment.call("move", {"move": "Qh8"})["view"] is None
    result = environment.call("move", {"move": "Qe8"})
    assert result["status"] == "continue" and result["view"] == environment.view()
    assert result["view"]["accepted_moves"] == [{"uci": "e4e8", "san": "Qe8+"}]
    assert result["view"]["move_number"] == 2
    assert environment.call("move", {"move": "Rxe8#"})["status"] == "solved"
    assert environment.record()["solved"] is True
    statuses = [attempt["status"] for attempt in environment.record()["attempts"]]
    assert statuses == ["illegal", "continue", "solved"]


def test_attempts_after_the_end_are_not_recorded():
    environment = ChessEnvironment(example(MATE_IN_ONE))
    environment.call("move", {"move": "Kf1"})
    assert environment.call("move", {"move": "Re8"})["status"] == "over"
    assert [a["status"] for a in environment.record()["attempts"]] == ["wrong"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("play", {"move": "e4"}),
        ("move", {}),
        ("move", {"move": 3}),
        ("move", {"move": "a", "b": 1}),
    ],
)
def test_a_bad_call_says_what_is_wrong(name: str, arguments: dict[str, object]):
    with pytest.raises(ValueError, match="move"):
        ChessEnvironment(example(MATE_IN_ONE)).call(name, arguments)
