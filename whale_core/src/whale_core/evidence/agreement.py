"""How two verifiers agree on a run's stored rollouts, and whether they drift apart as it trains.

The stored trajectories are judged again; no model plays. A policy that learns to please its own
verifier shows as a gap that grows: training reward rises, the independent verdict does not.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from attrs import asdict, frozen

from whale_core.abilities import HasAgreementSet, Labelled, Priced
from whale_core.config import Resolved
from whale_core.config.resolve import from_tree
from whale_core.errors import InputError, RunFolderError
from whale_core.evidence.start import check_same_task
from whale_core.plugins.manager import Plugins
from whale_core.records import Example, Json, NotScored, Spent, Trajectory
from whale_core.roles import Verifier
from whale_core.run.reader import StoredRun
from whale_core.run.services import close_each, probe_service
from whale_core.run.stored import read_trajectory
from whale_core.run.task import build_task
from whale_core.stats import Array, Interval, paired_difference

PASS = 0.5  # a reward above it is a pass, as for acceptance
SPLITS = ("weight", "harness", "selection")


@frozen
class Judged:
    """One rollout under two verifiers: for what it was made, in which phase and step (or phase),
    and both rewards."""

    example: str
    purpose: str
    phase: int
    step: int
    ours: float
    theirs: float


@frozen
class Agreement:
    """A 2 × 2 table of verdicts. ``ours`` is the run's verifier: passes of it alone are
    ``only_ours``."""

    both: int
    only_ours: int
    only_theirs: int
    neither: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[float, float]]) -> Agreement:
        """Count pairs of rewards (ours, theirs)."""
        counts: dict[tuple[bool, bool], int] = defaultdict(int)
        for ours, theirs in pairs:
            counts[ours > PASS, theirs > PASS] += 1
        return cls(
            counts[True, True], counts[True, False], counts[False, True], counts[False, False]
        )

    @property
    def rollouts(self) -> int:
        """All that was judged by both."""
        return self.both + self.only_ours + self.only_theirs + self.neither

    @property
    def agreement(self) -> float:
        """The share of equal verdicts; 0 of none."""
        return (self.both + self.neither) / self.rollouts if self.rollouts else 0.0

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: agreement beyond what the two pass rates alone give (Cohen 1960). None
        where one verdict is all there is, so that nothing is beyond."""
        n = self.rollouts
        if not n:
            return None
        a, b = (self.both + self.only_ours) / n, (self.both + self.only_theirs) / n
        chance = a * b + (1 - a) * (1 - b)
        return None if chance == 1.0 else (self.agreement - chance) / (1 - chance)

    @property
    def bias_p(self) -> float | None:
        """The two-sided p-value of differing as often one way as the other (McNemar's exact test);
        None where they never differ."""
        differ = self.only_ours + self.only_theirs
        if not differ:
            return None
        from scipy import stats

        return float(stats.binomtest(self.only_ours, differ, 0.5).pvalue)

    def as_json(self) -> dict[str, Json]:
        """Return counts and figures as plain JSON."""
        figures = {"agreement": self.agreement, "kappa": self.kappa, "bias_p": self.bias_p}
        return {**asdict(self), "rollouts": self.rollouts, **figures}


@frozen
class Drift:
    """Training reward less the independent one, in the first and the last third of the weight
    steps (by prompt: each averaged over its rollouts of that third), how much that gap has grown,
    and the two rewards by step (``by_step``: step, ours, theirs)."""

    first: Interval
    last: Interval
    growth: Interval
    by_step: tuple[tuple[int, float, float], ...]

    @property
    def drifts(self) -> bool:
        """Whether the gap has grown: the interval of its growth lies above 0."""
        return self.growth.low > 0


@frozen
class Report:
    """What two verifiers say of a run. ``left_out`` were not scored by one of them, or ended before
    any verdict. ``labelled`` is by verifier and kind of the domain's labelled set, where there is
    one: how many of it are judged as labelled, of how many."""

    ours: str
    theirs: str
    whole: Agreement
    by_purpose: Mapping[str, Agreement]
    drift: Drift | None
    left_out: int
    labelled: Mapping[str, Mapping[str, tuple[int, int]]]
    spent: Spent

    def as_json(self) -> dict[str, Json]:
        """Return the report as plain JSON."""
        drift = None if self.drift is None else {**asdict(self.drift), "drifts": self.drift.drifts}
        return {
            "ours": self.ours,
            "theirs": self.theirs,
            "whole": self.whole.as_json(),
            "by_purpose": {name: each.as_json() for name, each in self.by_purpose.items()},
            "drift": drift,
            "left_out": self.left_out,
            "labelled": {
                name: {kind: list(counts) for kind, counts in kinds.items()}
                for name, kinds in self.labelled.items()
            },
            "spent": asdict(self.spent),
        }


def compare_verifiers(
    run: StoredRun, resolved: Resolved, plugins: Plugins, against: str | None
) -> Report:
    """Judge the run's stored rollouts by the verifier ``against`` (None: the domain's default).

    Those on the test split stay sealed. Where the domain ships a labelled set, ``against`` is held
    to it too.

    Raises:
        InputError: the verifier asks a model, which would have to be paid, or is not installed.
        RunFolderError: the run's data is not what it was, or its files are damaged.
    """
    tree = {"domain": resolved.tree["domain"], "verifier": {"name": against}}
    if against is None:
        domain = build_task(resolved, plugins).domain
        tree["verifier"] = {"name": domain.verifier}
    other = from_tree(plugins, resolved.plugin_set, tree, required=("domain", "verifier"))
    task = build_task(other, plugins)
    verifier, name = task.verifier, str(tree["verifier"]["name"])
    if isinstance(verifier, Priced):
        raise InputError(
            f"--against {name}: it asks a model, and stored rollouts are judged without any; "
            f"choose the judge for a run (verifier={name}), then compare that with another"
        )
    check_same_task(run.path, task.domain)
    examples = {e.id: e for split in SPLITS for e in task.domain.split(split)}

    async def work() -> Report:
        try:
            await probe_service(verifier)
            judged, left_out, spent = await judge_again(run, examples, verifier)
            labelled = {}
            if isinstance(task.unsealed, HasAgreementSet):
                labelled[name] = await held_to(verifier, task.unsealed.agreement_set)
            purposes = sorted({each.purpose for each in judged})
            return Report(
                ours=resolved.chosen["verifier"].name,
                theirs=name,
                whole=Agreement.of((each.ours, each.theirs) for each in judged),
                by_purpose={
                    purpose: Agreement.of(
                        (each.ours, each.theirs) for each in judged if each.purpose == purpose
                    )
                    for purpose in purposes
                },
                drift=drift_of(judged),
                left_out=left_out,
                labelled=labelled,
                spent=spent,
            )
        finally:
            await close_each(task.unsealed, verifier)

    return asyncio.run(work())


async def judge_again(
    run: StoredRun, examples: Mapping[str, Example], verifier: Verifier
) -> tuple[list[Judged], int, Spent]:
    """Return every stored rollout with both rewards, how many were left out, and what it cost."""
    judged: list[Judged] = []
    left_out, spent = 0, Spent()
    for stored in run.stored_rollouts():
        trajectory = read_trajectory(stored)
        if trajectory.verdict is None:
            left_out += 1
            continue
        example = examples.get(trajectory.example_id)
        if example is None:
            raise RunFolderError(
                f"{run.path}: the domain has no example {trajectory.example_id} now: its data has "
                "changed"
            )
        verdict = await verifier.verify(example, trajectory)
        spent += verdict.spent
        if isinstance(verdict, NotScored):
            left_out += 1
            continue
        key = trajectory.key
        judged.append(
            Judged(
                example.id,
                key.purpose,
                stored["phase"],
                key.step,
                trajectory.reward,
                verdict.reward,
            )
        )
    return judged, left_out, spent


async def held_to(verifier: Verifier, labelled: Sequence[Labelled]) -> dict[str, tuple[int, int]]:
    """Return by kind how many labelled episodes the verifier judges as labelled, of how many."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in labelled:
        verdict = await verifier.verify(each.example, _ended(each.trajectory))
        if not isinstance(verdict, NotScored):
            counts[each.kind][0] += (verdict.reward > PASS) == each.right
            counts[each.kind][1] += 1
    return {kind: (right, n) for kind, (right, n) in sorted(counts.items())}


def drift_of(judged: Sequence[Judged]) -> Drift | None:
    """Return how training reward and the other verdict part over the weight steps; None of fewer
    than three steps."""
    made = [each for each in judged if each.purpose == "train"]
    steps = sorted({each.step for each in made})
    third = len(steps) // 3
    if not third:
        return None
    first, last = (
        _by_example(each for each in made if each.step in some)
        for some in (steps[:third], steps[-third:])
    )
    by_step = []
    for step in steps:
        means = _by_example(each for each in made if each.step == step)
        by_step.append((step, *np.mean(list(means.values()), axis=0).tolist()))
    return Drift(_gap(first), _gap(last), growth_of(first, last), tuple(by_step))


def growth_of(first: Mapping[str, Array], last: Mapping[str, Array]) -> Interval:
    """Return the gap of ``last`` less that of ``first``, with a 95 % interval.

    The limits are made from those of the two gaps by the method of variance estimates recovery
    (Zou and Donner 2008; Newcombe 1998), the correlation from the examples that are in both.

    Args:
        first: each example's two means (ours, theirs).
        last: the same of later steps; of the same examples, of others, or of some of both.
    """
    before, after = _gap(first), _gap(last)
    deviations = [
        {name: float(pair[0] - pair[1]) - gap.mean for name, pair in means.items()}
        for means, gap in ((first, before), (last, after))
    ]
    squares = [sum(value**2 for value in each.values()) for each in deviations]
    shared = sum(deviations[0][name] * deviations[1][name] for name in first.keys() & last.keys())
    correlation = shared / math.sqrt(squares[0] * squares[1]) if all(squares) else 0.0
    growth = after.mean - before.mean

    def reach(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a**2 + b**2 - 2 * correlation * a * b))

    return Interval(
        growth,
        growth - reach(after.mean - after.low, before.high - before.mean),
        growth + reach(after.high - after.mean, before.mean - before.low),
    )


def _by_example(judged: Iterable[Judged]) -> dict[str, Array]:
    """Return each example's two means (ours, theirs) over its rollouts."""
    rewards: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for each in judged:
        rewards[each.example].append((each.ours, each.theirs))
    return {name: np.mean(pairs, axis=0) for name, pairs in sorted(rewards.items())}


def _gap(means: Mapping[str, Array]) -> Interval:
    """Return how much more ours gives than theirs, paired by example."""
    both = np.array(list(means.values()))
    return paired_difference(both[:, 0], both[:, 1])


def _ended(trajectory: Trajectory) -> Trajectory:
    """Return a labelled trajectory, which must be one that ran to its end."""
    if trajectory.reason is not None:
        raise InputError(f"labelled episode {trajectory.example_id}: it ended before a verdict")
    return trajectory
