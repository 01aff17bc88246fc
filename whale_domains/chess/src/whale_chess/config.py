"""The settings of the chess plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from attrs import field, frozen
from attrs.validators import ge

from whale_core.config.later import LATER
from whale_core.config.paths import PathSetting

AUTO = -1


@frozen
class Config:
    """Settings of the domain ``chess``."""

    recommended: ClassVar[Mapping[str, Any]] = {"verifier": {"name": "chess-line"}}

    puzzles: Annotated[str, PathSetting()] = ""
    """Path of a puzzle file in Lichess columns (.csv or .csv.zst); empty: the bundled sample."""
    tuning: bool = False
    """Use the bundled tuning set, which shares no position with the sample."""
    max_solver_moves: int = field(default=AUTO, validator=ge(AUTO))
    """Longest line to keep, in moves of the solver; 0: any length; -1: mates in one from the
    bundled sets, any length from a file."""
    min_forcing: int = field(default=0, validator=ge(0))
    """Keep puzzles with at least this many captures and checks beside the solution."""
    weight: int = field(default=2048, validator=ge(1))
    """Puzzles that weight steps take their prompts from."""
    harness: int = field(default=256, validator=ge(1))
    """Puzzles on which candidate harnesses are scored."""
    selection: int = field(default=256, validator=ge(1))
    """Puzzles for choosing between phases."""
    test: int = field(default=256, validator=ge(1))
    """Puzzles of the final pass."""
    split_seed: int = 42
    """Decides which puzzle is in which split; the run's seed does not."""
    sampled_tokens: int = field(default=1024, validator=ge(1), metadata=LATER)
    """Tokens that the model may sample in one episode (published: 8129)."""
    skip_bad_rows: bool = False
    """Leave bad rows out and say how many and why, instead of stopping."""

    def split_sizes(self) -> Mapping[str, int]:
        """Return how many examples each split is to have."""
        return {name: getattr(self, name) for name in ("weight", "harness", "selection", "test")}


@frozen
class VerifierConfig:
    """The verifier ``chess-line`` has nothing to set."""
