"""Reference lines of a report: what programs that know no chess score, computed exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from whale_chess.line import Line
from whale_chess.moves import is_forcing, legal_moves
from whale_core.records import Example


def chance_levels(examples: Sequence[Example]) -> Mapping[str, float]:
    """Return the mean probability that each program solves one of ``examples``.

    ``the # program`` plays the first listed move whose SAN ends in ``#``, else any legal move.
    """
    solved = [_solving(example) for example in examples]
    names = ("uniform legal", "uniform forcing", "the # program")
    return {name: fmean(row[index] for row in solved) for index, name in enumerate(names)}


def _solving(example: Example) -> tuple[float, float, float]:
    """Return the three programs' probabilities of finding the whole line of one example."""
    line = Line.of(example.content)
    legal = forcing = mark = 1.0
    while line.open:
        solution = line.rest[0].uci()
        moves = legal_moves(line.board)
        every = [move["uci"] for move in moves]
        forced = [move["uci"] for move in moves if is_forcing(move["san"])]
        mating = [move["uci"] for move in moves if move["san"].endswith("#")]
        legal *= _share(solution, every)
        forcing *= _share(solution, forced or every)
        mark *= _share(solution, mating[:1] or every)
        line.attempt(solution)
    return legal, forcing, mark


def _share(solution: str, choices: Sequence[str]) -> float:
    """Return the probability that a uniform choice is the solution."""
    return (solution in choices) / len(choices)
