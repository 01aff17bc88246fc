"""What a plan costs on this machine: counts times what calibration measured.

Lower bounds of training assume that nothing is accepted, upper ones that everything is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add

from attrs import asdict, field, fields, frozen

from whale_core.config.settings import CapSettings, CoreSettings
from whale_core.errors import InputError
from whale_core.records import Json
from whale_core.run.calibration import Calibration
from whale_core.run.plan import PhasePlan, Plan
from whale_core.span import ZERO, Span, total


@frozen
class Cost:
    """Tokens, seconds and bytes of a phase or several. ``stored_bytes`` are what its rollouts and
    its last weights leave on the disk."""

    prompt_tokens: Span = ZERO
    sampled_tokens: Span = ZERO
    trained_tokens: Span = ZERO
    rollout_seconds: Span = ZERO
    training_seconds: Span = ZERO
    stored_bytes: Span = ZERO

    def __add__(self, other: Cost) -> Cost:
        """Return both together."""
        return Cost(*(getattr(self, name) + getattr(other, name) for name in COSTS))

    @property
    def tokens(self) -> Span:
        """Prompt and sampled tokens: what ``cap.tokens`` counts."""
        return self.prompt_tokens + self.sampled_tokens

    @property
    def seconds(self) -> Span:
        """All seconds."""
        return self.rollout_seconds + self.training_seconds


COSTS = tuple(each.name for each in fields(Cost))


@frozen
class Estimate:
    """The costs of a plan: by phase number, of the whole run, and of its first cycle.

    A run takes ``fullest_bytes`` of the disk while a checkpoint replaces another, and leaves
    ``kept_bytes``. It takes at least ``memory_mb``.
    """

    phases: Mapping[int, Cost] = field(factory=dict)
    run: Cost = field(factory=Cost)
    first_cycle: Cost = field(factory=Cost)
    kept_bytes: Span = ZERO
    fullest_bytes: Span = ZERO
    memory_mb: float = 0.0

    def as_json(self) -> dict[str, Json]:
        """Return the estimate as plain JSON."""
        return {
            "phases": [{"phase": n, **_cost_json(cost)} for n, cost in self.phases.items()],
            **_cost_json(self.run),
            "disk_bytes": {
                "kept": asdict(self.kept_bytes),
                "fullest": asdict(self.fullest_bytes),
            },
            "memory_mb": round(self.memory_mb),
            "first_cycle": _cost_json(self.first_cycle),
        }


def estimate(plan: Plan, core: CoreSettings, measured: Calibration) -> Estimate:
    """Return what ``plan`` costs at the measured prices."""
    phases = [(phase, phase_cost(phase, plan, core, measured)) for phase in plan.phases]
    run = _sum(cost for _, cost in phases)
    first = _sum(phase_cost(phase, plan, core, measured) for phase in plan.first_cycle)
    kept = run.stored_bytes
    fullest = kept
    if (point := measured.checkpoint) is not None and any(p.kind == "weights" for p, _ in phases):
        kept = kept + Span(0, point.optimizer_bytes)  # the newest; the one it replaces goes after
        fullest = kept + Span(0, point.optimizer_bytes + point.weights_bytes)
    return Estimate(
        phases={phase.number: cost for phase, cost in phases},
        run=run,
        first_cycle=first,
        kept_bytes=kept,
        fullest_bytes=fullest,
        memory_mb=measured.peak_memory_mb,
    )


def phase_cost(phase: PhasePlan, plan: Plan, core: CoreSettings, measured: Calibration) -> Cost:
    """Return what one phase costs."""
    rollouts = phase.rollouts
    rolling = total(
        work.batches.scaled(measured.batch_seconds)
        + work.prompts.scaled(measured.prompt_seconds)
        + work.rollouts.scaled(measured.rollout_seconds)
        for work in phase.work.values()
    ) + phase.null_episodes.scaled(measured.null_seconds)
    kept = rollouts.scaled(measured.trajectory_bytes)
    trained, training = ZERO, ZERO
    if phase.kind == "weights":
        train = phase.work["train"].rollouts
        kept = kept + train.scaled(measured.row_bytes)
        trained = Span(0, train.scaled(measured.sampled_tokens).most)
        training = _training_seconds(phase, plan, trained, measured)
        if (point := measured.checkpoint) is not None:
            kept = kept + Span(0, point.weights_bytes)
            most = phase.length.most
            written = None if most is None else -(-most // core.checkpoint_steps)
            training = training + Span(0, written).scaled(point.seconds)
    return Cost(
        prompt_tokens=rollouts.scaled(measured.prompt_tokens),
        sampled_tokens=rollouts.scaled(measured.sampled_tokens),
        trained_tokens=trained,
        rollout_seconds=rolling,
        training_seconds=training,
        stored_bytes=kept,
    )


def _training_seconds(phase: PhasePlan, plan: Plan, trained: Span, measured: Calibration) -> Span:
    if measured.training is None or plan.step is None:
        return Span(0, None)
    updates = Span(0, phase.length.most) * plan.step.most_updates
    return updates.scaled(measured.training.update_seconds) + trained.scaled(
        measured.training.token_seconds
    )


def refuse_small_caps(plan: Plan, caps: CapSettings, estimated: Estimate | None) -> None:
    """Raise ``InputError`` when a cap ends the run before its first cycle does.

    The cycle is one whose candidates are all scored. Of seconds, which training adds to as much as
    is accepted, the least are asked for. Without an estimate tokens and seconds are not checked.
    """
    needed: dict[str, tuple[str, int]] = {"rollouts": ("", plan.cycle_rollouts())}
    if estimated is not None:
        cost = estimated.first_cycle
        needed["tokens"] = ("about ", cost.tokens.known)
        needed["seconds"] = ("at least about ", cost.seconds.least)
    for name, (about, need) in needed.items():
        cap = getattr(caps, name)
        if cap and cap < need:
            raise InputError(
                f"cap.{name}={cap:g} is too small: one cycle needs {about}{need} {name}; raise the "
                "cap (0: none) or make the cycle smaller"
            )


def _sum(costs: Iterable[Cost]) -> Cost:
    return reduce(add, costs, Cost())


def _cost_json(cost: Cost) -> dict[str, Json]:
    return {
        **{name: asdict(getattr(cost, name)) for name in COSTS},
        "seconds": asdict(cost.seconds),
    }
