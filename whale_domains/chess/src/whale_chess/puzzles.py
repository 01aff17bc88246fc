"""Reads puzzle files in the columns of the Lichess puzzle database, plain or ``.zst``.

The FEN of a row is the position *before* the opponent's first move; ``Moves`` begins with that
move. Every row is replayed, so that a bad line is an error here and never in an episode.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TextIO

import chess
import zstandard
from attrs import frozen

from whale_chess.moves import is_forcing, legal_moves, position_key
from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.records import Example

REQUIRED = ("PuzzleId", "FEN", "Moves")
SHOWN_ERRORS = 5
LICHESS_GAME = re.compile(r"lichess\.org/(\w{8})")


@frozen
class Puzzle:
    """A puzzle whose line was replayed. ``key`` is that of the position to solve."""

    id: str
    fen: str
    moves: tuple[str, ...]
    rating: int | None
    themes: str
    game: str
    key: str

    @property
    def other_forcing(self) -> int:
        """How many captures and checks there are beside the solution, in the position to solve."""
        board = chess.Board(self.fen)
        board.push_uci(self.moves[0])
        return sum(is_forcing(m["san"]) for m in legal_moves(board) if m["uci"] != self.moves[1])

    @property
    def solver_moves(self) -> int:
        """How many moves of the line are the solver's."""
        return len(self.moves) // 2

    def example(self) -> Example:
        """Return the example; its id comes from the position alone, so it tells no solution."""
        content = {
            "puzzle": self.id,
            "fen": self.fen,
            "moves": list(self.moves),
            "rating": self.rating,
            "themes": self.themes,
        }
        return Example(id=content_hash("chess", self.key), content=content, group=self.game)


@frozen
class Loaded:
    """The puzzles of a file, and how many rows were left out as bad."""

    puzzles: tuple[Puzzle, ...]
    bad_rows: int


class _BadRow(Exception):
    """Why a row cannot be used: the field and the reason."""


def load(path: Path, *, skip_bad_rows: bool = False) -> Loaded:
    """Read a puzzle file.

    Raises:
        InputError: the file cannot be read, lacks a column, or has bad rows (the first few are
            named by line, field and reason) and ``skip_bad_rows`` is false.
    """
    puzzles: list[Puzzle] = []
    errors: list[str] = []
    try:
        with _open(path) as stream:
            for line, row in _rows(stream, path):
                try:
                    puzzles.append(_puzzle(row))
                except _BadRow as bad:
                    errors.append(f"line {line}, {bad}")
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; domain.puzzles must be a Lichess CSV or .csv.zst"
        ) from error
    except (zstandard.ZstdError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a readable CSV or .csv.zst file ({error})") from error
    if errors and not skip_bad_rows:
        more = "; …" if len(errors) > SHOWN_ERRORS else ""
        raise InputError(
            f"{path}: {len(errors)} bad row(s): {'; '.join(errors[:SHOWN_ERRORS])}{more}. "
            "Repair them, or set domain.skip_bad_rows=true to leave them out"
        )
    return Loaded(tuple(puzzles), len(errors))


def bundled(name: str) -> Path:
    """Return the path of a bundled puzzle file: ``puzzles`` or ``tuning``."""
    return Path(str(resources.files("whale_chess") / "data" / f"{name}.csv.zst"))


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    with path.open("rb") as raw:
        if path.suffix == ".zst":
            with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as data:
                yield io.TextIOWrapper(data, encoding="utf-8-sig", newline="")
        else:
            yield io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def _rows(stream: TextIO, path: Path) -> Iterator[tuple[int, Mapping[str, str | None]]]:
    reader = csv.DictReader(stream)
    missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(
            f"{path}: line 1 names no column {', '.join(missing)}; "
            "the columns of the Lichess puzzle database are needed"
        )
    for row in reader:
        yield reader.line_num, row


def _puzzle(row: Mapping[str, str | None]) -> Puzzle:
    """Return the puzzle of a row, its line replayed; raise ``_BadRow``."""
    fields = {name: (row.get(name) or "").strip() for name in REQUIRED}
    for name, value in fields.items():
        if not value:
            raise _BadRow(f"{name}: empty")
    board = _board(fields["FEN"])
    moves = tuple(fields["Moves"].split())
    if len(moves) % 2:
        raise _BadRow(f"Moves: {len(moves)} moves, but opponent and solver move in turn")
    _push(board, moves[0], 1)
    key = position_key(board)
    for number, move in enumerate(moves[1:], start=2):
        _push(board, move, number)
    return Puzzle(
        id=fields["PuzzleId"],
        fen=fields["FEN"],
        moves=moves,
        rating=_rating(row.get("Rating")),
        themes=row.get("Themes") or "",
        game=_game(row.get("GameUrl")) or fields["PuzzleId"],
        key=key,
    )


def _board(fen: str) -> chess.Board:
    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise _BadRow(f"FEN: {error}") from None
    if not board.is_valid():
        raise _BadRow(f"FEN: {fen!r} is not a possible position")
    return board


def _push(board: chess.Board, move: str, number: int) -> None:
    try:
        board.push(board.parse_uci(move))
    except ValueError:
        raise _BadRow(f"Moves: move {number}, {move!r}, is not legal there") from None


def _rating(text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise _BadRow(f"Rating: {text!r} is not a whole number") from None


def _game(url: str | None) -> str:
    """Return the game's id: several puzzles can come from one game."""
    match = LICHESS_GAME.search(url or "")
    return match.group(1) if match else (url or "").strip()


def distinct(puzzles: Sequence[Puzzle]) -> list[Puzzle]:
    """Return one puzzle per position, whatever the order of ``puzzles``; sorted by position."""
    kept: dict[str, Puzzle] = {}
    for puzzle in puzzles:
        other = kept.get(puzzle.key)
        if other is None or (puzzle.id, puzzle.moves) < (other.id, other.moves):
            kept[puzzle.key] = puzzle
    return [kept[key] for key in sorted(kept)]
