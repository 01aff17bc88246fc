"""Contract of a scheduler: it ends, it says what it will do, and it can be continued."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from attrs import define, field

from whale_core.errors import InputError
from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.roles import Phase, PhaseResult, RunFacts, Scheduler, begins_cycle, kind_of
from whale_core.testing.contracts.requirement import Factory, build, doing, require

MOST_PHASES = 2_000
MOST_UNITS = 100_000  # of a whole run

Signal = Callable[[int], float]  # of the n-th unit of a run, from 0

SIGNALS: Mapping[str, Signal] = {
    "always 0": lambda n: 0.0,
    "always 1": lambda n: 1.0,
    "rising": lambda n: n / (n + 20),
    "falling": lambda n: 1 / (n + 1),
    "noisy": lambda n: float(generator("scheduler", n).random()),
}


@define
class _Played:
    """What a scheduler did with a stream of signals."""

    phases: list[tuple[str, int | None]] = field(factory=list)  # kind, planned length
    results: list[PhaseResult] = field(factory=list)


def check_scheduler(
    factory: Factory,
    config: Any,
    steps_per_epoch: tuple[int, ...] = (1, 7, 40),
    phases: bool = True,
) -> None:
    """Check a scheduler on made-up training signals, for epochs of ``steps_per_epoch`` steps.

    Whatever the signals, the phases end and so does the run; a length that is planned is the one
    that comes; results that are sent again to a new scheduler (as when a run is continued) lead to
    the same phases; two runs of one scheduler do not disturb each other. There is a phase,
    or without ``phases`` never one. Where the settings do not fit an epoch of that length, it may
    refuse with ``InputError`` before the first phase, but not for all lengths.
    """
    accepted = [steps for steps in steps_per_epoch if not _refused(factory, config, steps)]
    require(bool(accepted), f"it refuses every epoch of {steps_per_epoch} steps")
    for steps in accepted:
        for name, signal in SIGNALS.items():
            at = f"signals {name}, {steps} steps per epoch"
            scheduler = build(factory, config, Setup(seed=0))
            played = _play(scheduler, steps, signal, at)
            has = "no phase at all" if phases else "a phase"
            require(bool(played.phases) == phases, f"{at}: the run has {has}")
            _check_again(scheduler, played, steps, signal, f"{at}, asked a second time")
            fresh = build(factory, config, Setup(seed=0))
            _check_again(fresh, played, steps, signal, f"{at}, continued")


def _refused(factory: Factory, config: Any, steps_per_epoch: int) -> bool:
    try:
        next(build(factory, config, Setup(seed=0)).phases(_facts(steps_per_epoch)), None)
    except InputError:
        return True
    except Exception:
        return False  # what else is wrong is found with the signals
    return False


def _facts(steps_per_epoch: int) -> RunFacts:
    return RunFacts(steps_per_epoch, rollouts_per_step=64, rollouts_per_score=32, candidates=3)


def _play(scheduler: Scheduler, steps_per_epoch: int, signal: Signal, at: str) -> _Played:
    """Run to the end as the alternation loop does."""
    played = _Played()
    units, cycle, first = 0, 0, ""
    with doing(f"{at}: phases()"):
        phases = scheduler.phases(_facts(steps_per_epoch))
        phase = _next(phases, None)
    while phase is not None:
        kind = _kind(phase, at)
        first = first or kind
        cycle += begins_cycle(kind, first)
        signals, planned = _phase(phase, units, signal, f"{at}: phase {len(played.phases) + 1}")
        units += len(signals)
        played.phases.append((kind, planned))
        gain = signals[-1] - signals[0]
        played.results.append(PhaseResult(kind, cycle, len(signals), tuple(signals), gain))
        require(len(played.phases) < MOST_PHASES, f"{at}: no end after {MOST_PHASES} phases")
        with doing(f"{at}: sending the result of phase {len(played.phases)}"):
            phase = _next(phases, played.results[-1])
    return played


def _phase(phase: Phase, units: int, signal: Signal, at: str) -> tuple[list[float], int | None]:
    """Feed a phase's rule until it stops; return the signals and the planned length."""
    with doing(f"{at}: its stopping rule"):
        planned = phase.until.planned()
        require(
            planned is None or (isinstance(planned, int) and planned >= 1),
            f"{at}: planned() is {planned!r}; it must be None or at least 1",
        )
        signals: list[float] = []
        over = False
        while not over:
            signals.append(signal(units + len(signals)))
            over = phase.until.observe(signals[-1])
            require(isinstance(over, bool), f"{at}: observe() returned {over!r}, not a bool")
            require(
                units + len(signals) < MOST_UNITS,
                f"{at}: does not end; after {len(signals)} signals it still goes on",
            )
    require(
        planned in (None, len(signals)),
        f"{at}: planned() said {planned}, but it ended after {len(signals)}",
    )
    return signals, planned


def _check_again(
    scheduler: Scheduler, played: _Played, steps_per_epoch: int, signal: Signal, at: str
) -> None:
    """Send recorded results to ``scheduler``; the phases, and what is left of the run, are equal.

    A second generator of the same scheduler runs beside the first one.
    """
    with doing(f"{at}: phases()"):
        phases = scheduler.phases(_facts(steps_per_epoch))
        other = scheduler.phases(_facts(steps_per_epoch))
        _next(other, None)
        phase = _next(phases, None)
    units = 0
    for number, ((kind, planned), result) in enumerate(
        zip(played.phases, played.results, strict=True), start=1
    ):
        require(phase is not None, f"{at}: ends before phase {number}; it had gone on before")
        assert phase is not None
        now = _kind(phase, at)
        require(now == kind, f"{at}: phase {number} was one of {kind}, now it is one of {now}")
        signals, plan = _phase(phase, units, signal, f"{at}: phase {number}")
        require(
            plan == planned and len(signals) == result.length,
            f"{at}: phase {number} had {result.length} units (planned: {planned}), "
            f"now {len(signals)} (planned: {plan}): is state kept outside the generator?",
        )
        units += len(signals)
        with doing(f"{at}: sending the result of phase {number}"):
            _next(other, result)
            phase = _next(phases, result)
    require(phase is None, f"{at}: goes on after phase {len(played.phases)}, where it had ended")


def _next(phases: Generator[Phase, PhaseResult, None], result: PhaseResult | None) -> Phase | None:
    try:
        return next(phases) if result is None else phases.send(result)
    except StopIteration:
        return None


def _kind(phase: Phase, at: str) -> str:
    name = type(phase).__name__
    require(
        name in ("WeightPhase", "HarnessPhase"),
        f"{at}: yielded a {name}, not a WeightPhase or HarnessPhase",
    )
    return kind_of(phase)
