"""What a run will roll out, phase by phase, counted before anything is made.

A scheduler decides its phases, and a rule ends each, as the training signals come. So both are
played through with made-up signals: ones that never rise and ones that always do. Between these two
lies what patience-like rules can do; a length that its rule states is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from itertools import zip_longest

from attrs import asdict, evolve, field, frozen

from whale_core.abilities import IterationPlan, PlansIterations, StepPlan
from whale_core.config.settings import CoreSettings
from whale_core.records import Json
from whale_core.roles import PhaseResult, RunFacts, Scheduler, StopRule, begins_cycle, kind_of
from whale_core.rollout.executor import BLOCK
from whale_core.run.contexts import SMOKE_EXAMPLES
from whale_core.run.outline import Outline
from whale_core.run.parts import planned_step
from whale_core.span import UNKNOWN, ZERO, Span, total

PURPOSES = ("train", "smoke", "score", "confirm", "select", "test")
MOST_UNITS = 20_000  # steps and iterations of a run, beyond which its length counts as open

Signal = Callable[[int], float]


def never_rising(unit: int) -> float:
    """Return the signal of a phase that gets nowhere."""
    return 0.0


def always_rising(unit: int) -> float:
    """Return the signal of a phase that improves with every step, by more than any margin."""
    return float(unit)


@frozen
class Walk:
    """Kind and length of each phase as a scheduler yields them. The last length is None, and
    ``problem`` says why, where nothing is known from there on."""

    phases: tuple[tuple[str, int | None], ...]
    problem: str = ""


@frozen
class Work:
    """Rollouts of one purpose. A batch is asked for as a whole; a prompt is one that the engine
    has not seen in this batch (further draws of it are cheaper)."""

    batches: Span = ZERO
    prompts: Span = ZERO
    rollouts: Span = ZERO

    @classmethod
    def of(cls, harnesses: int, examples: int, draws: int) -> Work:
        """Return the work of one pool: every draw of every example under every harness."""
        prompts = harnesses * examples
        batches = -(-prompts * draws // BLOCK)
        return cls(*map(Span.exactly, (batches, prompts, prompts * draws)))

    def __add__(self, other: Work) -> Work:
        """Return both together."""
        return Work(
            self.batches + other.batches,
            self.prompts + other.prompts,
            self.rollouts + other.rollouts,
        )

    def __mul__(self, times: Span | int) -> Work:
        """Return the work of so many times this."""
        return Work(self.batches * times, self.prompts * times, self.rollouts * times)


NOBODY_KNOWS = Work(UNKNOWN, UNKNOWN, UNKNOWN)


@frozen
class PhasePlan:
    """What one phase takes, the evaluation at its end included.

    ``kind`` is ``start``, ``weights``, ``harness`` or ``final``; ``length`` counts weight steps or
    search iterations. ``null_episodes`` cost no model call.
    """

    number: int
    cycle: int
    kind: str
    length: Span = ZERO
    work: Mapping[str, Work] = field(factory=dict)
    proposals: Span = ZERO
    null_episodes: Span = ZERO

    @property
    def rollouts(self) -> Span:
        """All rollouts of the phase."""
        return total(work.rollouts for work in self.work.values())


@frozen
class Plan:
    """A run's phases from its start to its final pass, and what the first cycle takes.

    ``first_cycle`` is as long as signals that never rise make it.
    """

    phases: tuple[PhasePlan, ...]
    first_cycle: tuple[PhasePlan, ...]
    step: StepPlan | None
    notes: tuple[str, ...] = ()

    @property
    def rollouts(self) -> Span:
        """All rollouts of the run."""
        return total(phase.rollouts for phase in self.phases)

    def by_purpose(self) -> dict[str, Span]:
        """Return the run's rollouts by purpose, in the order of ``PURPOSES``."""
        return {
            purpose: total(p.work[purpose].rollouts for p in self.phases if purpose in p.work)
            for purpose in PURPOSES
        }

    @property
    def proposals(self) -> Span:
        """All calls of the proposer."""
        return total(phase.proposals for phase in self.phases)

    @property
    def null_episodes(self) -> Span:
        """All episodes with null models."""
        return total(phase.null_episodes for phase in self.phases)

    def cycle_rollouts(self) -> int:
        """Return what one cycle needs: every candidate is scored where a search may refuse some."""
        return total(phase.rollouts for phase in self.first_cycle).known

    def expected_rollouts(self) -> int | None:
        """Return how many rollouts the run makes if no candidate is refused; None if it is open."""
        return self.rollouts.most

    def as_json(self) -> dict[str, Json]:
        """Return the plan as plain JSON, ``most`` null where it is open."""
        return {
            "phases": [_phase_json(phase) for phase in self.phases],
            "rollouts": asdict(self.rollouts),
            "by_purpose": {name: asdict(span) for name, span in self.by_purpose().items()},
            "proposals": asdict(self.proposals),
            "null_episodes": asdict(self.null_episodes),
            "first_cycle_rollouts": self.cycle_rollouts(),
            "notes": list(self.notes),
        }


def plan_run(outline: Outline, core: CoreSettings) -> Plan:
    """Count what a run will do. Nothing is rolled out."""
    flat = walk(outline.scheduler, outline.facts, never_rising)
    rising = walk(outline.scheduler, outline.facts, always_rising)
    counter = _Counter(outline, core)
    notes = []
    if outline.update is not None and counter.step is None:
        notes.append("the model update does not say what a step rolls out: training is unknown")
    if outline.search is not None and not isinstance(outline.search, PlansIterations):
        notes.append("the harness search does not say what it tries: scoring is unknown")
    notes += sorted({walk.problem for walk in (flat, rising) if walk.problem})
    first = [phase for phase in counter.phases([flat]) if phase.cycle <= 1]
    return Plan(
        phases=tuple(counter.phases([flat, rising])),
        first_cycle=tuple(phase for phase in first if phase.kind != "final"),
        step=counter.step,
        notes=tuple(notes),
    )


def walk(scheduler: Scheduler, facts: RunFacts, signal: Signal) -> Walk:
    """Play the scheduler through: its phases under such signals, for at most ``MOST_UNITS``.

    Made-up signals may be more than a scheduler takes: then it says no more from there on, which
    is no reason to stop a run.
    """
    walked: list[tuple[str, int | None]] = []
    try:
        for kind, length in _played(scheduler, facts, signal):
            walked.append((kind, length))
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return Walk((*walked, ("unknown", None)), f"the scheduler cannot be played through: {said}")
    problem = ""
    if any(length is None for _, length in walked):
        problem = f"the scheduler sets no end within {MOST_UNITS} steps"
    return Walk(tuple(walked), problem)


def _played(
    scheduler: Scheduler, facts: RunFacts, signal: Signal
) -> Generator[tuple[str, int | None], None, None]:
    left, cycle, first = MOST_UNITS, 0, ""
    phases = scheduler.phases(facts)
    phase = next(phases, None)
    while phase is not None:
        kind = kind_of(phase)
        first = first or kind
        cycle += begins_cycle(kind, first)
        length = length_of(phase.until, signal, left)
        yield kind, length
        if length is None:
            return
        left -= length
        signals = tuple(signal(unit) for unit in range(length))
        try:
            phase = phases.send(PhaseResult(kind, cycle, length, signals))
        except StopIteration:
            return


def length_of(rule: StopRule, signal: Signal, most: int) -> int | None:
    """Return how long a phase is: what its rule states, else after how many signals it ends."""
    planned = rule.planned()
    if planned is not None:
        return max(1, planned) if planned <= most else None  # a phase makes one before it ends
    return next((unit + 1 for unit in range(most) if rule.observe(signal(unit))), None)


class _Counter:
    """Turns walked phases into counted ones."""

    def __init__(self, outline: Outline, core: CoreSettings) -> None:
        self._search = outline.search
        self._core = core
        self._score = outline.score
        self._confirmation = outline.confirmation
        self._nulls = outline.null_models
        self._gate_episodes = outline.null_models * outline.null_examples
        self._selection = Work.of(1, outline.selection, core.selection.draws)
        self._test = min(core.test.examples, outline.test)
        self.step = planned_step(outline.update)

    def phases(self, walks: Sequence[Walk]) -> list[PhasePlan]:
        """Return the start, the phases that happen in any of the walks, and the final pass."""
        start = PhasePlan(
            number=0,
            cycle=0,
            kind="start",
            work={"select": self._selection},
            null_episodes=self._gate_episodes,
        )
        counted = [start]
        cycle, first, searched = 0, "", False
        for number, (kind, length, begins) in enumerate(_merged(walks), start=1):
            first = first or kind
            cycle += begins and begins_cycle(kind, first)
            phase = self._phase(kind, length, searched)
            happens = Span(min(1, length.least), 1)
            work = {"select": self._selection * happens, **phase.work}
            counted.append(evolve(phase, number=number, cycle=cycle, work=work))
            searched = searched or kind == "harness"
        return [*counted, self._final(counted)]

    def _phase(self, kind: str, length: Span, searched: bool) -> PhasePlan:
        phase = PhasePlan(0, 0, kind, length)
        if kind == "weights":
            return evolve(phase, work={"train": self._step_work() * length})
        if kind == "harness":
            return self._harness_phase(phase, searched)
        anything = {purpose: NOBODY_KNOWS for purpose in ("train", "smoke", "score", "select")}
        return evolve(phase, work=anything, proposals=UNKNOWN, null_episodes=UNKNOWN)

    def _step_work(self) -> Work:
        if self.step is None:
            return NOBODY_KNOWS
        return Work.of(1, self.step.prompts, self.step.group_size)

    def _harness_phase(self, phase: PhasePlan, searched: bool) -> PhasePlan:
        if not isinstance(self._search, PlansIterations):
            work = {"smoke": NOBODY_KNOWS, "score": NOBODY_KNOWS}
            return evolve(phase, work=work, proposals=UNKNOWN, null_episodes=UNKNOWN)
        first = self._search.planned_iteration(1, searched)
        later = self._search.planned_iteration(2, searched)
        once, rest = _split(phase.length)
        work = {
            name: self._iteration_work(first, name) * once
            + self._iteration_work(later, name) * rest
            for name in ("smoke", "score")
        }
        if self._confirmation.draws:
            work["confirm"] = self._confirm_work() * once
        return evolve(
            phase,
            work=work,
            proposals=first.proposals * once + later.proposals * rest,
            null_episodes=(first.null_checked * once + later.null_checked * rest)
            * self._gate_episodes,
        )

    def _iteration_work(self, iteration: IterationPlan, purpose: str) -> Work:
        """Candidates are smoked one after the other and scored in one pool."""
        if purpose == "smoke":
            return Work.of(1, min(SMOKE_EXAMPLES, self._score), 1) * iteration.smoked
        each = Work.of(1, self._score, self._core.search.draws) * iteration.scored
        most = each.rollouts.most
        pools = Span(-(-each.rollouts.least // BLOCK), None if most is None else -(-most // BLOCK))
        return evolve(each, batches=pools)

    def _confirm_work(self) -> Work:
        """All harnesses that are to be confirmed are measured in one pool."""
        what = self._confirmation
        one = Work.of(1, what.examples, what.draws) * what.harnesses
        most = what.rollouts.most
        return evolve(one, batches=Span(-(-what.rollouts.least // BLOCK), -(-(most or 0) // BLOCK)))

    def _final(self, counted: Iterable[PhasePlan]) -> PhasePlan:
        """The four corners of the pair; those that a run cannot tell apart are measured once."""
        kinds = {phase.kind for phase in counted}
        pairs = Span(1, (1 + ("weights" in kinds)) * (1 + ("harness" in kinds)))
        return PhasePlan(
            number=len(list(counted)),
            cycle=max(phase.cycle for phase in counted),
            kind="final",
            work={"test": Work.of(1, self._test, self._core.test.draws) * pairs},
            null_episodes=self._nulls * self._test,
        )


def _merged(walks: Sequence[Walk]) -> Iterable[tuple[str, Span, bool]]:
    """Yield the phases of all walks side by side, with the span of their lengths.

    Where walks have other kinds of phase in one place, each kind stands there, at least 0 long.
    """
    for places in zip_longest(*(walk.phases for walk in walks)):
        kinds = dict.fromkeys(place[0] for place in places if place is not None)
        for index, kind in enumerate(kinds):
            lengths = [
                place[1] if place is not None and place[0] == kind else 0 for place in places
            ]
            known = [length for length in lengths if length is not None]
            least = min(known, default=1)
            most = None if len(known) < len(lengths) else max(known)
            yield kind, Span(least, most), index == 0


def _split(length: Span) -> tuple[Span, Span]:
    """Return how often a phase has a first iteration, and how many after it."""
    most = None if length.most is None else max(0, length.most - 1)
    return Span(min(1, length.least), 1), Span(max(0, length.least - 1), most)


def _phase_json(phase: PhasePlan) -> dict[str, Json]:
    return {
        "phase": phase.number,
        "cycle": phase.cycle,
        "kind": phase.kind,
        "length": asdict(phase.length),
        "rollouts": {name: asdict(work.rollouts) for name, work in phase.work.items()},
        "proposals": asdict(phase.proposals),
        "null_episodes": asdict(phase.null_episodes),
    }
