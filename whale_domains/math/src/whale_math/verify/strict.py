r"""The verifier ``strict-box``: the published rule, an exact string in the last box."""

from __future__ import annotations

from whale_core.plugins import Setup
from whale_core.records import Example, NotScored, Trajectory, Verdict
from whale_math.answers import boxed
from whale_math.config import StrictBoxConfig
from whale_math.verify.span import final_answer

TAIL = 100  # characters; the published rule cuts to 300, and then to these


def strictly_equal(answer: str, reference: str) -> bool:
    r"""Say whether the last ``\boxed{…}`` in the tail of ``answer`` holds exactly ``reference``."""
    return boxed(answer[-TAIL:]) == reference


class StrictBoxVerifier:
    """Reward 1 for the reference's exact text in the last box of the final answer, else 0.

    Nothing is normalised: ``0.5`` is not ``1/2``, a blank or a unit makes it wrong.
    """

    version = "2"

    def __init__(self, config: StrictBoxConfig, setup: Setup) -> None:
        """There is nothing to set."""

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        """Return the verdict; the part ``boxed`` says whether there was a closed box."""
        answer = final_answer(trajectory) or ""
        return Verdict(
            reward=float(strictly_equal(answer, example.content["answer"])),
            parts={"boxed": float(boxed(answer[-TAIL:]) is not None)},
        )
