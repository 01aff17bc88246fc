"""Contract of a verifier: a function of what it is given, for any trajectory whatever."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve

from whale_core.keys import DrawKey, json_hash
from whale_core.plugins import Setup
from whale_core.records import Example, NotScored, Outcome, Trajectory, Verdict
from whale_core.roles import Domain, Verifier
from whale_core.run.services import close_each
from whale_core.testing.contracts.requirement import Factory, build, doing, require
from whale_core.testing.workbench import as_harness, play

EXAMPLES = 8
ACCEPT_ABOVE = 0.5
ODD_ANSWERS = (None, "", " \n", "\x00\x1b[31m", "½ ≠ ∞ 漢字", "-1e999", "nan", "a" * 5000)


def check_verifier(
    factory: Factory,
    config: Any,
    domain: Domain,
    solution: Callable[[Example], str] | None = None,
) -> None:
    """Check a verifier on the trajectories of ``domain``.

    An episode in which nothing happened is a fail; rewards are in [0, 1]; the verdict is a function
    of example and trajectory alone, also after they were written as JSON; no answer makes it raise.
    ``solution`` returns a final answer that must pass, where answers decide.
    """
    verifier = build(factory, config, Setup(seed=0, domain=domain))
    require(
        isinstance(verifier.version, str) and bool(verifier.version),
        "version must be a text: scores are kept under it",
    )
    again = build(factory, config, Setup(seed=0, domain=domain))
    examples = domain.split("harness")[:EXAMPLES]

    async def work() -> None:
        try:
            await _check(verifier, again, domain, examples, solution)
        finally:
            await close_each(verifier, again, domain)

    asyncio.run(work())


async def _check(
    verifier: Verifier,
    again: Verifier,
    domain: Domain,
    examples: Sequence[Example],
    solution: Callable[[Example], str] | None,
) -> None:
    for example in examples:
        untouched = empty(domain, example)
        verdict = await _verdict(verifier, example, untouched, "an episode without a move")
        require(
            isinstance(verdict, NotScored) or verdict.reward <= ACCEPT_ABOVE,
            f"an episode of example {example.id} in which nothing happened passes",
        )
        for answer in ODD_ANSWERS:
            odd = evolve(untouched, answer=answer)
            await _verdict(verifier, example, odd, f"the final answer {str(answer)[:20]!r}")
        if solution is not None:
            right = evolve(untouched, answer=solution(example))
            verdict = await _verdict(verifier, example, right, "the right answer")
            require(
                isinstance(verdict, Verdict) and verdict.reward > ACCEPT_ABOVE,
                f"the right answer {right.answer!r} to example {example.id} does not pass",
            )
    base = as_harness(domain.harnesses[domain.base_harness])
    for null in domain.null_models:
        played = await play(domain, verifier, base, null, examples)
        await _check_function(verifier, again, examples, played)


async def _check_function(
    verifier: Verifier, again: Verifier, examples: Sequence[Example], played: Sequence[Trajectory]
) -> None:
    """One after the other, all at once, by another object and from JSON: always the same."""
    pairs = list(zip(examples, played, strict=True))
    first = [await _verdict(verifier, e, t, "a played episode") for e, t in pairs]
    later = [await _verdict(verifier, e, t, "a played episode") for e, t in reversed(pairs)]
    require(first == later[::-1], "the second verdict on an episode differs from the first")
    together = await asyncio.gather(*(_verdict(verifier, e, t, "an episode") for e, t in pairs))
    require(first == together, "verdicts differ when several are asked for at the same time")
    stored = [
        (
            evolve(e, content=json.loads(json.dumps(dict(e.content)))),
            evolve(t, record=json.loads(json.dumps(dict(t.record)))),
        )
        for e, t in pairs
    ]
    others = [await _verdict(again, e, t, "a stored episode") for e, t in stored]
    require(
        first == others,
        "a second verifier judges a stored episode otherwise",
    )


async def _verdict(
    verifier: Verifier, example: Example, trajectory: Trajectory, what: str
) -> Verdict | NotScored:
    before = json_hash([dict(example.content), dict(trajectory.record)])
    with doing(f"verify({what})"):
        verdict = await verifier.verify(example, trajectory)
    require(
        before == json_hash([dict(example.content), dict(trajectory.record)]),
        f"verify({what}) changed the example or the record",
    )
    require(
        isinstance(verdict, Verdict | NotScored),
        f"verify({what}) returned a {type(verdict).__name__}, not a Verdict or NotScored",
    )
    if isinstance(verdict, Verdict):
        numbers = {"reward": verdict.reward, **verdict.parts}
        for name, value in numbers.items():
            require(
                isinstance(value, int | float) and math.isfinite(value),
                f"verify({what}): {name} is {value!r}, not a finite number",
            )
        require(
            0.0 <= verdict.reward <= 1.0,
            f"verify({what}): the reward {verdict.reward} is not in [0, 1]",
        )
    return verdict


def empty(domain: Domain, example: Example) -> Trajectory:
    """Return the trajectory of an episode in which the harness did nothing."""
    with doing("environment(example).record()"):
        record = domain.environment(example).record()
    return Trajectory(
        example_id=example.id,
        harness_id="harness",
        weights_id="weights",
        key=DrawKey(0, "score", 1, 1, example.id, 0),
        calls=(),
        events=(),
        answer=None,
        record=record,
        outcome=Outcome.FAIL,
    )
