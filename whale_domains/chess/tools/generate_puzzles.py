"""Make the bundled puzzles: mates in one and two from random games, in the Lichess columns.

    python whale_domains/chess/tools/generate_puzzles.py --seed 11 --out puzzles.csv.zst
    python whale_domains/chess/tools/generate_puzzles.py --seed 12 --mates-in-one 1200 \
        --mates-in-two 120 --exclude puzzles.csv.zst --out tuning.csv.zst

Each game is played by weighted random choice (captures and checks are likelier) from the stream
named by ``(seed, game number)`` and gives at most one puzzle: the first of a length still wanted,
so the same command always writes the same rows. Every puzzle has exactly one solution, found by
full search, and at least three other forcing moves (captures or checks) for the side to move.

Rows are written as they are found to ``OUT.part``; the compressed file and its entry in
``manifest.json`` beside it come last.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import chess
import numpy as np
import zstandard
from attrs import frozen

from whale_core.keys import content_hash, generator

COLUMNS = (
    "PuzzleId",
    "FEN",
    "Moves",
    "Rating",
    "RatingDeviation",
    "Popularity",
    "NbPlays",
    "Themes",
    "GameUrl",
    "OpeningTags",
)
FIRST_PLY = 10  # earlier mates are well-known traps that many games share
LAST_PLY = 140
MIN_OTHER_FORCING = 3
CAPTURE_WEIGHT = 3.0
CHECK_WEIGHT = 4.0


@frozen
class Puzzle:
    """One row: the position before the opponent's move, then that move and the solution."""

    fen: str
    moves: tuple[str, ...]
    key: str  # piece placement and side to move of the position to solve
    game: int

    @property
    def solver_moves(self) -> int:
        """How many moves of the line are the solver's."""
        return len(self.moves) // 2

    def row(self, seed: int) -> dict[str, str]:
        """Return the row in Lichess columns; what only play on a server gives stays empty."""
        length = "oneMove" if self.solver_moves == 1 else "short"
        return dict.fromkeys(COLUMNS, "") | {
            "PuzzleId": "w" + content_hash(self.key, length=10),
            "FEN": self.fen,
            "Moves": " ".join(self.moves),
            "Themes": f"mate mateIn{self.solver_moves} {length}",
            "GameUrl": f"random-game:{seed}/{self.game}",
        }


def position_key(board: chess.Board) -> str:
    """Return what makes two positions the same one: piece placement and side to move."""
    return f"{board.board_fen()} {'w' if board.turn else 'b'}"


def checks(board: chess.Board, moves: list[chess.Move]) -> list[chess.Move]:
    """Return those of ``moves`` that give check."""
    return [move for move in moves if board.gives_check(move)]


def mates(board: chess.Board, checking: list[chess.Move]) -> list[chess.Move]:
    """Return those of the ``checking`` moves that give checkmate."""
    found = []
    for move in checking:
        board.push(move)
        if not any(board.generate_legal_moves()):
            found.append(move)
        board.pop()
    return found


def mates_in_one(board: chess.Board) -> list[chess.Move]:
    """Return all moves that give checkmate."""
    return mates(board, checks(board, list(board.legal_moves)))


def forces_mate(board: chess.Board, move: chess.Move) -> bool:
    """Say whether every reply to ``move`` (there is one) allows checkmate at once."""
    board.push(move)
    replies = list(board.legal_moves)
    forced = bool(replies)
    for reply in replies:
        board.push(reply)
        forced = bool(mates_in_one(board))
        board.pop()
        if not forced:
            break
    board.pop()
    return forced


def only_mate_in_two(
    board: chess.Board, legal: list[chess.Move], checking: list[chess.Move]
) -> chess.Move | None:
    """Return the one first move that forces mate in two, if it is a check and there is no other.

    Checks are tried first: they leave few replies, so most positions are dismissed cheaply.
    """
    forcing = [move for move in checking if forces_mate(board, move)]
    if len(forcing) != 1:
        return None
    quiet = (move for move in legal if move not in checking)
    return None if any(forces_mate(board, move) for move in quiet) else forcing[0]


def defence(board: chess.Board, first: chess.Move, draw: float) -> list[chess.Move] | None:
    """Return a reply to ``first`` that leaves exactly one mate, and that mate; None without one."""
    board.push(first)
    lines = []
    for reply in sorted(board.legal_moves, key=chess.Move.uci):
        board.push(reply)
        finish = mates_in_one(board)
        board.pop()
        if len(finish) == 1:
            lines.append([reply, finish[0]])
    board.pop()
    return lines[int(draw * len(lines))] if lines else None


def play(seed: int, game: int, want: set[int]) -> Puzzle | None:
    """Play one random game to its first puzzle whose number of solver moves is in ``want``."""
    draws = generator(seed, "random-game", game).random((LAST_PLY, 2))
    board = chess.Board()
    before = board.fen()
    for ply in range(LAST_PLY):
        legal = sorted(board.legal_moves, key=chess.Move.uci)
        if not legal or board.is_insufficient_material():
            return None
        checking = checks(board, legal)
        mating = mates(board, checking)
        if ply >= FIRST_PLY:
            line = solution(board, legal, checking, mating, want, float(draws[ply, 1]))
            if line:
                trigger = board.peek().uci()
                moves = (trigger, *(move.uci() for move in line))
                return Puzzle(before, moves, position_key(board), game)
        choices = [move for move in legal if move not in mating]
        if not choices:
            return None
        before = board.fen()
        board.push(choose(board, choices, set(checking), float(draws[ply, 0])))
    return None


def solution(
    board: chess.Board,
    legal: list[chess.Move],
    checking: list[chess.Move],
    mating: list[chess.Move],
    want: set[int],
    draw: float,
) -> list[chess.Move] | None:
    """Return the only solution of a position that is worth a puzzle, the stored reply included."""
    forcing = [move for move in legal if move in checking or board.is_capture(move)]
    if len(forcing) <= MIN_OTHER_FORCING or len(mating) > 1:
        return None
    if mating:
        return mating if 1 in want else None
    first = only_mate_in_two(board, legal, checking) if 2 in want else None
    rest = defence(board, first, draw) if first else None
    return [first, *rest] if first and rest else None


def choose(
    board: chess.Board, moves: list[chess.Move], checking: set[chess.Move], draw: float
) -> chess.Move:
    """Return one of ``moves``: captures and checks are likelier, which makes mates come sooner."""
    weights = [
        1.0 + CAPTURE_WEIGHT * board.is_capture(move) + CHECK_WEIGHT * (move in checking)
        for move in moves
    ]
    index = int(np.searchsorted(np.cumsum(weights), draw * sum(weights), side="right"))
    return moves[min(index, len(moves) - 1)]


def puzzles(seed: int, wanted: dict[int, int], excluded: set[str]) -> Iterator[Puzzle]:
    """Yield puzzles in game order until ``wanted`` (solver moves -> count) is filled."""
    missing = dict(wanted)
    seen = set(excluded)
    for game in itertools.count():
        want = {length for length, count in missing.items() if count > 0}
        if not want:
            return
        puzzle = play(seed, game, want)
        if puzzle is None or puzzle.key in seen:
            continue
        seen.add(puzzle.key)
        missing[puzzle.solver_moves] -= 1
        yield puzzle


def keys_of(path: Path) -> set[str]:
    """Return the position keys of a puzzle file."""
    text = zstandard.ZstdDecompressor().decompress(path.read_bytes()).decode()
    keys = set()
    for row in csv.DictReader(io.StringIO(text)):
        board = chess.Board(row["FEN"])
        board.push_uci(row["Moves"].split()[0])
        keys.add(position_key(board))
    return keys


def write(path: Path, seed: int, wanted: dict[int, int], excluded: set[str]) -> None:
    """Write the puzzle file and its manifest entry."""
    part = path.with_name(path.name + ".part")
    games = 0
    counts = dict.fromkeys(wanted, 0)
    with part.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for puzzle in puzzles(seed, wanted, excluded):
            writer.writerow(puzzle.row(seed))
            counts[puzzle.solver_moves] += 1
            games = puzzle.game + 1
            if sum(counts.values()) % 100 == 0:
                out.flush()
                print(f"{games} games: {counts}", file=sys.stderr, flush=True)
    data = zstandard.ZstdCompressor(level=19).compress(part.read_bytes())
    path.write_bytes(data)
    part.unlink()
    manifest_path = path.with_name("manifest.json")
    manifest = json.loads(manifest_path.read_text()) if manifest_path.exists() else {}
    manifest[path.name] = {
        "sha256": hashlib.sha256(data).hexdigest(),
        "seed": seed,
        "games": games,
        "mates_in_one": counts[1],
        "mates_in_two": counts[2],
    }
    manifest_path.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def main() -> None:
    """Parse the command line and write the file it asks for."""
    parser = argparse.ArgumentParser(description="Make chess puzzles from random games.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--mates-in-one", type=int, default=3200)
    parser.add_argument("--mates-in-two", type=int, default=400)
    parser.add_argument("--exclude", type=Path, help="puzzle file whose positions are left out")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    excluded = keys_of(args.exclude) if args.exclude else set()
    write(args.out, args.seed, {1: args.mates_in_one, 2: args.mates_in_two}, excluded)


if __name__ == "__main__":
    main()
