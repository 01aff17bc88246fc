"""The domain ``chess``: puzzles, environment, base harnesses and what proposers need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from whale_chess.catalogue import CATALOGUE
from whale_chess.chance import chance_levels
from whale_chess.config import AUTO, Config
from whale_chess.environment import MOVE, ChessEnvironment
from whale_chess.metrics import METRICS
from whale_chess.nulls import NULL_MODELS
from whale_chess.puzzles import Puzzle, bundled, load
from whale_chess.splits import share_out
from whale_core.edits import uncapped
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.recordings import shipped_recordings
from whale_core.records import Example
from whale_core.roles import Limits

HARNESSES = ("published", "strong")


class ChessDomain:
    """Chess puzzles. The reward comes from the moves made; the final answer's text is ignored.

    ``notes`` are lines a user must see: smaller splits than asked for, rows left out.
    """

    name = "chess"
    version = "1"
    tools = (MOVE,)
    answer_is_sampled = False
    base_harness = "published"
    verifier = "chess-line"
    metrics = METRICS
    null_models = NULL_MODELS
    catalogue = CATALOGUE
    recordings = shipped_recordings("whale_chess")

    def __init__(self, config: Config, setup: Setup) -> None:
        """Load and share out the puzzles; raise ``InputError`` for a file that cannot serve."""
        self.limits = Limits(model_calls=18, sampled_tokens=config.sampled_tokens)
        self.harnesses = {name: _text(f"harnesses/{name}.py") for name in HARNESSES}
        self.harnesses["paper"] = uncapped(self.harnesses["published"])
        self.brief = _text("brief.md")
        notes: list[str] = []
        path = _path(config)
        loaded = load(path, skip_bad_rows=config.skip_bad_rows)
        if note := loaded.note(path):
            notes.append(note)
        sizes = {
            "weight": config.weight,
            "harness": config.harness,
            "selection": config.selection,
            "test": config.test,
        }
        kept = [puzzle for puzzle in loaded.puzzles if _wanted(puzzle, config)]
        splits = share_out(kept, sizes, config.split_seed, str(path))
        self.notes = (*notes, *splits.notes)
        self._splits = {
            name: tuple(puzzle.example() for puzzle in puzzles)
            for name, puzzles in splits.puzzles.items()
        }

    def split(self, name: str) -> Sequence[Example]:
        """Return the examples of ``weight``, ``harness``, ``selection`` or ``test``."""
        return self._splits[name]

    def environment(self, example: Example) -> ChessEnvironment:
        """Return a fresh episode of ``example``."""
        return ChessEnvironment(example)

    def chance_levels(self, examples: Sequence[Example]) -> Mapping[str, float]:
        """Return what uniform choice and the ``#`` program score on ``examples``."""
        return chance_levels(examples)


def _text(name: str) -> str:
    return (resources.files("whale_chess") / name).read_text(encoding="utf-8")


def _path(config: Config) -> Path:
    if config.puzzles and config.tuning:
        raise InputError(
            "domain.puzzles and domain.tuning are both set; the tuning set is bundled, so drop one"
        )
    if config.puzzles:
        return Path(config.puzzles)
    return bundled("tuning" if config.tuning else "puzzles")


def _wanted(puzzle: Puzzle, config: Config) -> bool:
    longest = config.max_solver_moves
    if longest == AUTO:
        longest = 0 if config.puzzles else 1
    short_enough = longest == 0 or puzzle.solver_moves <= longest
    return short_enough and (not config.min_forcing or puzzle.other_forcing >= config.min_forcing)
