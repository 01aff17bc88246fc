"""Shares puzzles out to the splits: disjoint by position and by game, whatever the row order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from whale_chess.puzzles import Puzzle, distinct
from whale_core.errors import InputError
from whale_core.keys import content_hash

ORDER = ("test", "selection", "harness", "weight")  # the sealed split is filled first
SMALLEST = 8


@frozen
class Splits:
    """The puzzles of each split. ``notes`` say what was left out, and which splits are smaller
    than asked for."""

    puzzles: Mapping[str, tuple[Puzzle, ...]]
    notes: tuple[str, ...] = ()


def share_out(
    puzzles: Sequence[Puzzle], sizes: Mapping[str, int], seed: int, source: str
) -> Splits:
    """Fill the splits game by game in the order of a hash of (seed, game).

    Filling ``test`` first keeps it the same whatever sizes the others have. If there are too few
    puzzles, all sizes shrink in proportion and the note says so.

    Raises:
        InputError: a split would have fewer than 8 puzzles (or than asked for, if that is less).
    """
    kept = distinct(puzzles)
    room = scaled(sizes, len(kept))
    small = [name for name in ORDER if room[name] < min(SMALLEST, sizes[name])]
    if small:
        raise InputError(
            f"{source}: {len(kept)} usable puzzles are too few: split {small[0]!r} would have "
            f"{room[small[0]]} of the {SMALLEST} it needs; give a larger file or wider filters"
        )
    filled: dict[str, list[Puzzle]] = {name: [] for name in ORDER}
    for game in by_hash(kept, seed):
        for name in ORDER:
            if len(filled[name]) + len(game) <= room[name]:
                filled[name].extend(game)
                break
    got = {name: tuple(found) for name, found in filled.items()}
    notes = (repeats_note(len(puzzles) - len(kept), source), shrunk_note(got, sizes, source))
    return Splits(got, tuple(note for note in notes if note))


def scaled(sizes: Mapping[str, int], available: int) -> dict[str, int]:
    """Return ``sizes``, shrunk in proportion if they ask for more than ``available``."""
    asked = sum(sizes.values())
    if asked <= available:
        return dict(sizes)
    return {name: size * available // asked for name, size in sizes.items()}


def by_hash(puzzles: Sequence[Puzzle], seed: int) -> list[list[Puzzle]]:
    """Return the puzzles of each game, games in hash order."""
    games: dict[str, list[Puzzle]] = {}
    for puzzle in puzzles:
        games.setdefault(puzzle.game, []).append(puzzle)
    return [games[game] for game in sorted(games, key=lambda game: _rank(seed, game))]


def _rank(seed: int, game: str) -> str:
    return content_hash("chess split", str(seed), game, length=32)


def repeats_note(repeats: int, source: str) -> str | None:
    """Return the line that tells the user of puzzles left out as repeats; None without any."""
    if not repeats:
        return None
    return f"{source}: {repeats:,} puzzles repeat a position of another one and were left out"


def shrunk_note(
    got: Mapping[str, Sequence[Puzzle]], sizes: Mapping[str, int], source: str
) -> str | None:
    """Return the line that tells the user of smaller splits; None if all are as asked for."""
    if all(len(got[name]) == sizes[name] for name in ORDER):
        return None
    shares = ", ".join(f"{name} {len(got[name])} of {sizes[name]}" for name in reversed(ORDER))
    return f"{source} has too few usable puzzles, so the splits are smaller: {shares}"
