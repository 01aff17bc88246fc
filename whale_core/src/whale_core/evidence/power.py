"""Which gain a comparison can see, and what the comparison costs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from attrs import asdict, frozen

from whale_core.errors import InputError, RunFolderError
from whale_core.records import Json
from whale_core.run.finale import RESULT
from whale_core.run.journal import JOURNAL, read_journal
from whale_core.run.preview import Preview
from whale_core.stats import detectable_gain, draw_correlation

SIDES = 2
BASE = "theta0_h0"  # the pair whose rate a run's comparison starts from


@frozen
class Costs:
    """What one rollout of a test costs, as measured."""

    tokens: float
    seconds: float


@frozen
class Power:
    """The gain over ``base`` that a paired 95 % interval of ``examples`` x ``draws`` shows with
    80 % power, and the price of both sides.

    ``gain`` supposes that examples are equally hard for both sides, ``gain_apart`` that their
    difficulties have nothing to do with each other; None where even a rise to 1 would not do.
    ``tokens`` and ``seconds`` are None where nothing was measured.
    """

    name: str
    examples: int
    draws: int
    base: float
    correlation: float
    gain: float | None
    gain_apart: float | None
    rollouts: int
    tokens: float | None = None
    seconds: float | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        return {**asdict(self), "notes": list(self.notes)}


def power(
    name: str,
    examples: int,
    draws: int,
    base: float,
    correlation: float = 0.0,
    costs: Costs | None = None,
    notes: tuple[str, ...] = (),
) -> Power:
    """Return the power of one comparison. Raises ``InputError`` on sizes or rates out of range."""
    try:
        gain = detectable_gain(examples, draws, base, correlation)
        apart = detectable_gain(examples, draws, base, correlation, shared=False)
    except ValueError as error:
        raise InputError(str(error)) from error
    rollouts = SIDES * examples * draws
    return Power(
        name,
        examples,
        draws,
        base,
        correlation,
        gain,
        apart,
        rollouts,
        None if costs is None else rollouts * costs.tokens,
        None if costs is None else rollouts * costs.seconds,
        notes,
    )


def power_of_plan(
    made: Preview,
    sizes: dict[str, tuple[int, int]],
    base: float | None,
    correlation: float | None,
) -> list[Power]:
    """Return the power of the comparisons of a planned run, ``sizes`` giving examples and draws.

    The base rate is ``base``, else what calibration measured. Raises ``InputError`` where neither
    is there.
    """
    measured = made.calibration
    if base is None and measured is None:
        raise InputError("without calibration the base rate is not known: give --base RATE")
    costs, notes = None, []
    if measured is not None:
        seconds = measured.rollout_seconds + measured.prompt_seconds
        costs = Costs(measured.prompt_tokens + measured.sampled_tokens, seconds)
        if base is None:
            notes.append(f"the base rate is that of {measured.rollouts} training rollouts")
    rate = base if base is not None or measured is None else measured.reward
    assert rate is not None
    if correlation is None:
        notes.append(ASSUMED)
    return [
        power(name, n, k, rate, correlation or 0.0, costs, tuple(notes))
        for name, (n, k) in sizes.items()
    ]


ASSUMED = "the correlation of draws is taken for 0: give --correlation"


def power_of_run(run: Path, base: float | None, correlation: float | None) -> Power:
    """Return the power of a finished run's test, from its own figures.

    The base rate is that of (θ0, h0), the correlation that of its draws, the costs those of the
    final pass, each unless given. Raises ``RunFolderError`` where there is no finished run.
    """
    if not (run / JOURNAL).is_file():
        raise RunFolderError(f"{run} is not a run folder, it has no {JOURNAL}")
    if not (run / RESULT).is_file():
        raise RunFolderError(f"{run} has no {RESULT} yet: whale resume {run}")
    result = json.loads((run / RESULT).read_text())
    entries = read_journal(run / JOURNAL)[0]
    (score,) = (
        each["score"]
        for each in entries
        if each.get("event") == "evaluation" and each.get("pair") == BASE
    )
    notes = []
    if correlation is None:
        means = np.array(list(score["means"].values()))
        correlation = draw_correlation(means, score["draws"])
        if correlation is None:
            notes.append(ASSUMED)
    spent = result["ledger"]["by"].get("policy/test")
    costs = None
    if spent and spent["rollouts"]:
        tokens = spent["prompt_tokens"] + spent["sampled_tokens"]
        costs = Costs(tokens / spent["rollouts"], spent["seconds"] / spent["rollouts"])
    return power(
        "test",
        len(score["means"]),
        score["draws"],
        score["mean"] if base is None else base,
        correlation or 0.0,
        costs,
        tuple(notes),
    )
