"""Reads puzzle files in the columns of the Lichess puzzle database, plain or ``.zst``.

The FEN of a row is the position *before* the opponent's first move; ``Moves`` begins with that
move. Every row is replayed, so that a bad line is an error here and never in an episode.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import chess
from attrs import define, field, frozen

from whale_chess.moves import is_forcing, legal_moves, position_key
from whale_chess.rows import REQUIRED, BadRow, Row, read_rows
from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.records import Example

SHOWN_ROWS = 5
SHOWN_CHARACTERS = 120
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


@define
class BadRows:
    """Rows that cannot be used: how many by field, and what is wrong with the first few."""

    by_field: Counter[str] = field(factory=Counter)
    shown: list[str] = field(factory=list)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.by_field.total()

    def add(self, line: int, bad: BadRow) -> None:
        """Take note of one."""
        self.by_field[bad.field] += 1
        if len(self.shown) < SHOWN_ROWS:
            self.shown.append(f"line {line}, {bad}")

    def __str__(self) -> str:
        fields = ", ".join(f"{name} {n:,}" for name, n in sorted(self.by_field.items()))
        more = "; …" if self.count > len(self.shown) else ""
        return f"({fields}): {'; '.join(self.shown)}{more}"


@frozen
class Loaded:
    """The puzzles of a file, its number of rows, and those that were left out as bad."""

    puzzles: tuple[Puzzle, ...]
    rows: int
    bad: BadRows

    def note(self, path: Path) -> str | None:
        """Return the line that tells a user of the rows left out, if there are any."""
        if not self.bad.count:
            return None
        return f"{path}: {self.bad.count:,} of {self.rows:,} rows were skipped {self.bad}"


def load(path: Path, *, skip_bad_rows: bool = False) -> Loaded:
    """Read a puzzle file.

    Raises:
        InputError: the file cannot be read to its end, lacks a column, or has bad rows (the first
            few are named by line, field and reason) and ``skip_bad_rows`` is false.
    """
    puzzles: list[Puzzle] = []
    bad = BadRows()
    for line, row in read_rows(path):
        try:
            if isinstance(row, BadRow):
                raise row
            puzzles.append(_puzzle(row))
        except BadRow as problem:
            bad.add(line, problem)
    rows = len(puzzles) + bad.count
    if bad.count and not skip_bad_rows:
        raise InputError(
            f"{path}: {bad.count:,} of {rows:,} rows are bad {bad}. "
            "Repair them, or give --skip-bad-rows (domain.skip_bad_rows=true) to leave them out"
        )
    return Loaded(tuple(puzzles), rows, bad)


def bundled(name: str) -> Path:
    """Return the path of a bundled puzzle file: ``puzzles`` or ``tuning``."""
    return Path(str(resources.files("whale_chess") / "data" / f"{name}.csv.zst"))


def _puzzle(row: Row) -> Puzzle:
    """Return the puzzle of a row, its line replayed; raise ``BadRow``."""
    fields = {name: row[name].strip() for name in REQUIRED}
    for name, value in fields.items():
        if not value:
            raise BadRow(name, "empty")
    board = _board(fields["FEN"])
    texts = fields["Moves"].split()
    if len(texts) % 2:
        raise BadRow("Moves", f"{len(texts)} moves, but opponent and solver move in turn")
    moves = [_push(board, texts[0], 1)]
    key = position_key(board)
    moves += [_push(board, text, number) for number, text in enumerate(texts[1:], start=2)]
    return Puzzle(
        id=fields["PuzzleId"],
        fen=fields["FEN"],
        moves=tuple(moves),
        rating=_rating(row.get("Rating", "")),
        themes=row.get("Themes", ""),
        game=_game(row.get("GameUrl", "")) or fields["PuzzleId"],
        key=key,
    )


def _board(fen: str) -> chess.Board:
    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise BadRow("FEN", _short(str(error))) from None
    if not board.is_valid():
        raise BadRow("FEN", f"{_short(fen)!r} is not a possible position")
    return board


def _push(board: chess.Board, text: str, number: int) -> str:
    """Play a move and return it in plain UCI: castling by the king's squares."""
    try:
        move = board.parse_uci(text)
        if not move:  # a null move, which the parser takes for legal
            raise ValueError
    except ValueError:
        raise BadRow("Moves", f"move {number}, {_short(text)!r}, is not legal there") from None
    board.push(move)
    return move.uci()


def _rating(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise BadRow("Rating", f"{_short(text)!r} is not a whole number")
    return int(text)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _game(url: str) -> str:
    """Return the game's id: several puzzles can come from one game."""
    match = LICHESS_GAME.search(url)
    return match.group(1) if match else url.strip()


def distinct(puzzles: Sequence[Puzzle]) -> list[Puzzle]:
    """Return one puzzle per position, whatever the order of ``puzzles``; sorted by position."""
    kept: dict[str, Puzzle] = {}
    for puzzle in puzzles:
        other = kept.get(puzzle.key)
        if other is None or (puzzle.id, puzzle.moves) < (other.id, other.moves):
            kept[puzzle.key] = puzzle
    return [kept[key] for key in sorted(kept)]
