"""The verifier ``math-verify``: whole numbers at once, everything else by the library."""

from __future__ import annotations

from importlib.metadata import version

from whale_core.plugins import Setup
from whale_core.records import Example, NotScored, Trajectory, Verdict
from whale_math.answers import stated
from whale_math.config import MathVerifyConfig
from whale_math.verify.integers import whole_number
from whale_math.verify.pool import Pool, WorkersFailed
from whale_math.verify.relations import sides
from whale_math.verify.span import final_answer
from whale_math.verify.spelling import in_latex
from whale_math.verify.worked_out import is_number, is_worked_out

LIBRARIES = ("math-verify", "latex2sympy2_extended")  # what decides is in them


class MathVerifyVerifier:
    """Reward 1 for an answer that is mathematically equal to the reference, else 0.

    Where the reference is a number, the answer must be one that is worked out: ``31 + 111`` is not
    142; the part ``unfinished`` says so. An answer that the library cannot decide on within its
    processor time, or that is too large to try (a tower of powers), earns 0; the part ``undecided``
    says so.
    """

    def __init__(self, config: MathVerifyConfig, setup: Setup) -> None:
        """Start nothing yet."""
        self.version = " ".join(["4", *(f"{name} {version(name)}" for name in LIBRARIES)])
        self._pool = Pool(config.workers, config.seconds)

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        """Return the verdict; the part ``stated`` says whether there was an answer to judge."""
        found = stated(final_answer(trajectory) or "")
        if found is None:
            return _verdict(False, stated=False)
        if not finished(example.content["answer"], found):
            return _verdict(False, unfinished=True)
        try:
            equal = await self.equal(example.content["answer"], found)
        except WorkersFailed as error:
            return NotScored(f"verifier: {error}")
        return _verdict(equal is True, undecided=equal is None)

    async def equal(self, reference: str, answer: str) -> bool | None:
        """Return whether two expressions are equal; None where that cannot be decided in time.

        Raises:
            WorkersFailed: no worker can be started, or it gets no processor.
        """
        reference, answer = in_latex(reference), in_latex(answer)
        expected, number = whole_number(reference), whole_number(answer)
        if expected is not None and number is not None:
            return expected == number
        found: bool | None = False
        for side in sides(answer, reference):
            found = await self._pool.equal(reference, side)
            if not found:
                break
        return found

    async def close(self) -> None:
        """End the workers. Idempotent."""
        self._pool.close()


def finished(reference: str, answer: str) -> bool:
    """Return whether an answer is worked out as far as its reference; of an equation, one side."""
    reference, answer = in_latex(reference), in_latex(answer)
    if not is_number(reference):
        return True
    return any(is_worked_out(side, reference) for side in sides(answer, reference) or [answer])


def _verdict(
    right: bool, *, stated: bool = True, unfinished: bool = False, undecided: bool = False
) -> Verdict:
    parts = {"stated": stated, "unfinished": unfinished, "undecided": undecided}
    return Verdict(float(right), {name: float(value) for name, value in parts.items()})
