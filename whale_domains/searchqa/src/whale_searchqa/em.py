"""The verifier ``em``: exact match with a reference after normalisation."""

from __future__ import annotations

from whale_core.plugins import Setup
from whale_core.records import Example, NotScored, Trajectory, Verdict
from whale_searchqa.answers import VERSION, committed, contained, exact_match
from whale_searchqa.config import EmConfig


class EmVerifier:
    """Reward 1 when the last reply's last answer is a reference, 0 otherwise.

    An answer that was chosen by the harness among several, that stands in an earlier reply or in no
    closed pair of tags, is none.
    """

    version = VERSION

    def __init__(self, config: EmConfig, setup: Setup) -> None:
        """There is nothing to set."""

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        """Return the verdict; ``contains``: the answer holds a reference, beside other words."""
        answer, references = committed(trajectory), example.content["answers"]
        right = answer is not None and exact_match(answer, references)
        holds = answer is not None and contained(answer, references)
        return Verdict(reward=float(right), parts={"contains": float(right or holds)})
