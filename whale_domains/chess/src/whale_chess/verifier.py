"""The verifier ``chess-line``: replays the attempted moves and never trusts their status."""

from __future__ import annotations

from whale_chess.config import VerifierConfig
from whale_chess.line import Line
from whale_core.plugins import Setup
from whale_core.records import Example, NotScored, Trajectory, Verdict


class ChessLineVerifier:
    """Reward 1 for the complete reference line, 0 otherwise; no partial credit."""

    version = "1"

    def __init__(self, config: VerifierConfig, setup: Setup) -> None:
        """There is nothing to set."""

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        """Return the verdict; ``correct_moves`` is the share of the line that was found."""
        line = Line.of(example.content)
        for attempt in trajectory.record["attempts"]:
            line.attempt(attempt["move"])
        return Verdict(
            reward=float(line.solved),
            parts={
                "correct_moves": len(line.accepted) / line.solver_moves,
                "illegal_moves": float(line.illegal),
            },
        )
