"""The verifier ``answer-match``: one of three ways to compare."""

from __future__ import annotations

import math

from whale_core.plugins import Setup
from whale_core.records import Example, Trajectory, Verdict

from whale_example_jsonl.config import VerifierConfig


class AnswerMatch:
    """Reward 1 when the final answer is the example's ``answer``, by the rule."""

    def __init__(self, config: VerifierConfig, setup: Setup) -> None:
        """Take the rule; it is part of the version, because verdicts depend on it."""
        self._config = config
        self.version = f"1 {config.rule} {config.tolerance:g}"

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict:
        """Return the verdict on the final answer."""
        return Verdict(float(self.equal(trajectory.answer or "", str(example.content["answer"]))))

    def equal(self, given: str, wanted: str) -> bool:
        """Return whether ``given`` is ``wanted`` by the rule."""
        match self._config.rule:
            case "number":
                one, two = number(given), number(wanted)
                if one is None or two is None:
                    return False
                return abs(one - two) <= self._config.tolerance
            case "ignore-case":
                return given.casefold().split() == wanted.casefold().split()
            case _:
                return given.strip() == wanted.strip()


def number(text: str) -> float | None:
    """Return the finite number that ``text`` is, thousands commas allowed; None if it is none."""
    try:
        value = float(text.strip().replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
