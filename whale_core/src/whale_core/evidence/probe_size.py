"""How large a probe is: its steps and iterations, and on which examples it is confirmed."""

from __future__ import annotations

from attrs import asdict, frozen

from whale_core.errors import InputError
from whale_core.keys import generator
from whale_core.records import Example
from whale_core.roles import (
    Domain,
    RunFacts,
)

FEW = 3  # steps and iterations of a probe whose rollouts nobody sets


@frozen
class Budget:
    """``rollouts`` of each coordinate's probe, and ``examples`` × ``draws`` of each confirmation.

    None: three steps or three iterations, whichever takes more; as many as ``selection`` says.
    """

    rollouts: int | None = None
    examples: int | None = None
    draws: int | None = None

    def check(self) -> None:
        """Raise ``InputError`` for a number below 1."""
        for name, value in asdict(self).items():
            if value is not None and value < 1:
                raise InputError(f"--{name} {value}: give at least 1")


def held_examples(domain: Domain, count: int, used: int) -> tuple[tuple[Example, ...], str]:
    """Return ``count`` examples of ``selection``, those first that evaluations between phases
    (``used`` of them) leave out, and a note where there are too few of these."""
    split = domain.split("selection")
    order = generator("examples", "selection").permutation(len(split))[::-1][:count]
    shared = max(0, min(count, len(split)) - max(0, len(split) - used))
    note = ""
    if count > len(split):
        note = f"{count} examples wanted, but the selection split has {len(split)}: all are used"
    elif shared:
        note = (
            f"{shared} of {count} confirming examples are also those of the run's evaluations "
            "(other draws; neither probe sees them)"
        )
    return tuple(split[int(index)] for index in order), note


def lengths(facts: RunFacts, rollouts: int | None) -> tuple[int, int]:
    """Return how many weight steps and search iterations take about ``rollouts`` each.

    At least one step, and two iterations: the first only scores the incoming harness. None takes
    three of what takes more. Where nobody says what a unit takes, there are three.
    """
    first = facts.search_rollouts(1)
    per_step, per_iteration = facts.rollouts_per_step, facts.search_rollouts(2) - first
    wanted = rollouts
    if wanted is None:
        wanted = max(FEW * per_step, facts.search_rollouts(FEW) if per_iteration else 0)
    steps = max(1, round(wanted / per_step)) if per_step else FEW
    iterations = max(2, 1 + round((wanted - first) / per_iteration)) if per_iteration else FEW
    return steps, iterations
