"""Run records as a comparison: conditions, differences between them, curves over rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from statistics import fmean

from attrs import asdict, field, frozen

from whale_core.errors import InputError
from whale_core.evidence.budget import Budget
from whale_core.evidence.collect import KINDS, REPORTED, START, RunRecord
from whale_core.evidence.inference import Difference, difference
from whale_core.evidence.words import difference_sentence
from whale_core.keys import json_hash
from whale_core.records import Json
from whale_core.stats import (
    Curve,
    Interval,
    across_seeds,
    average,
    best_on_test,
    best_so_far,
    holm,
    matches_across_seeds,
    phase_lengths,
    selection_optimism,
)

SCHEMA = 2
# Points of a curve whose best is to be reached: with fewer, when it is first had is chance.
LEAST_POINTS = 4


@frozen
class Condition:
    """Runs of the same settings under several seeds. ``planned`` are a run's rollouts as its plan
    counts them (``least`` and ``most``)."""

    name: str
    settings_hash: str
    runs: tuple[RunRecord, ...] = ()
    planned: Mapping[str, Json] | None = None

    @property
    def finished(self) -> list[RunRecord]:
        """The runs that have a result, by seed."""
        return sorted((run for run in self.runs if run.finished), key=lambda run: run.seed)

    @property
    def scores(self) -> dict[int, float]:
        """The reported pair's mean on the test split, by seed."""
        return {run.seed: float(run.final["mean"]) for run in self.finished}

    @property
    def curves(self) -> dict[int, Curve]:
        """By seed, the best selection score so far over the rollouts spent, before the final
        pass."""
        return {
            run.seed: best_so_far([p.rollouts for p in run.points], [p.mean for p in run.points])
            for run in self.finished
        }


@frozen
class Compared:
    """Two conditions; the better one is ``a``. ``p_holm`` is adjusted over all such pairs."""

    a: Condition
    b: Condition
    difference: Difference
    p_holm: float | None = None


@frozen
class Comparison:
    """All conditions, and every pair of them that can be compared."""

    conditions: tuple[Condition, ...]
    pairs: tuple[Compared, ...]
    command: str = ""
    budget: Budget | None = None
    settings: Sequence[str] = field(factory=tuple)

    def as_json(self) -> dict[str, Json]:
        """Return what ``comparison.json`` holds; docs/compare.md describes it."""
        sets = _Examples()
        runs = [run for condition in self.conditions for run in condition.runs]
        told = [
            {"condition": condition.name, **run.as_json(), **sets.of(run)}
            for condition in self.conditions
            for run in condition.runs
        ]
        return {
            "schema": SCHEMA,
            "domain": _one({run.domain for run in runs if run.domain}),
            "command": self.command,
            "settings": list(self.settings),
            "budget": None if self.budget is None else asdict(self.budget),
            "sets": [condition.name for condition in self.conditions],
            "seeds": sorted({run.seed for run in runs}),
            "conditions": [condition_json(each, self.budget) for each in self.conditions],
            "best_on_test": _best(self.conditions),
            "differences": [_pair_json(pair) for pair in self.pairs],
            "rollouts_to_match": _matching(self.conditions),
            "runs": told,
            "test_examples": sets.known,
        }


def compare(
    conditions: Sequence[Condition],
    command: str = "",
    budget: Budget | None = None,
    settings: Sequence[str] = (),
) -> Comparison:
    """Compare all conditions with one another."""
    pairs = [_compared(a, b) for a, b in combinations(conditions, 2)]
    known = [p.difference.p for p in pairs if p.difference.p is not None]
    adjusted = iter(holm(known))
    told = [
        Compared(p.a, p.b, p.difference, None if p.difference.p is None else next(adjusted))
        for p in pairs
    ]
    return Comparison(tuple(conditions), tuple(told), command, budget, tuple(settings))


def grouped(records: Sequence[RunRecord]) -> list[Condition]:
    """Return runs grouped by their settings hash, which leaves out the seed, in order.

    A condition is called as its plugin set; where several share one, with the hash behind it.

    Raises:
        InputError: two runs of one condition have the same seed.
    """
    by_hash: dict[str, list[RunRecord]] = {}
    for record in records:
        by_hash.setdefault(record.settings_hash, []).append(record)
    sets = [runs[0].plugin_set for runs in by_hash.values()]
    conditions = []
    for settings_hash, runs in by_hash.items():
        seeds = [run.seed for run in runs]
        for run in runs:
            if seeds.count(run.seed) > 1:
                raise InputError(
                    f"{run.run}: another run has the same settings and seed ({run.seed}); give one"
                )
        name = runs[0].plugin_set
        if sets.count(name) > 1:
            name = f"{name} ({settings_hash[:7]})"
        conditions.append(Condition(name, settings_hash, tuple(runs)))
    return conditions


def condition_json(condition: Condition, budget: Budget | None) -> dict[str, Json]:
    """Return what is said of one condition: mean over seeds, every seed, cost, behaviour."""
    done, scores = condition.finished, condition.scores
    values = list(scores.values())
    return {
        "name": condition.name,
        "settings_hash": condition.settings_hash,
        "seeds": {str(seed): score for seed, score in scores.items()},
        "mean": fmean(values) if values else None,
        "across_seeds": _interval(across_seeds(scores).interval) if scores else None,
        "start": _mean([float(run.pairs[START]["mean"]) for run in done]),
        "gain": _gain(done),
        "unfinished": [
            {"seed": run.seed, "state": run.state, "reason": run.reason}
            for run in condition.runs
            if not run.finished
        ],
        "planned_rollouts": condition.planned,
        "budget": None
        if budget is None
        else budget.of_condition(condition.planned, [_spent(run, budget.unit) for run in done]),
        "spent": {
            name: _mean([_spent(run, name) for run in done])
            for name in ("rollouts", "tokens", "usd", "seconds")
        },
        "update_rollouts": _mean([n for run in done if (n := run.update_rollouts) is not None]),
        "phases": {str(run.seed): run.phases for run in done},
        "phase_lengths": {kind: _lengths(done, kind) for kind in KINDS},
        "selection_optimism": _optimism(done),
        "luck_of_the_best": _mean([luck for run in done if (luck := run.luck) is not None]),
        "pass_at": _pass_at(done),
        "metrics": _means([run.final["metrics"] for run in done]),
        "curve": _band(condition.curves),
    }


def _compared(a: Condition, b: Condition) -> Compared:
    means = [{run.seed: run.means[REPORTED] for run in each.finished} for each in (a, b)]
    found = difference(means[0], means[1])
    if found.interval is not None and found.interval.mean < 0:
        return Compared(b, a, difference(means[1], means[0]))
    return Compared(a, b, found)


def _pair_json(pair: Compared) -> dict[str, Json]:
    found, told = pair.difference, pair.difference.across_seeds
    return {
        "a": pair.a.name,
        "b": pair.b.name,
        "examples": found.examples,
        "left_out": found.left_out,
        "seeds": {} if told is None else {str(seed): by for seed, by in told.by_seed.items()},
        **(_interval(found.interval) or {"mean": None, "low": None, "high": None}),
        "across_seeds": None if told is None else _interval(told.interval),
        "p": found.p,
        "p_holm": pair.p_holm,
        "sentence": difference_sentence(pair.a.name, pair.b.name, found, pair.p_holm),
    }


def _matching(conditions: Sequence[Condition]) -> list[dict[str, Json]]:
    """Return for each ordered pair what share of its rollouts ``a`` needs for ``b``'s best score
    on selection, seed by seed; ``refused`` says why where ``b`` was measured too seldom."""
    told: list[dict[str, Json]] = []
    curves = {each.name: each.curves for each in conditions}
    for a, b in permutations(curves, 2):
        both = curves[a].keys() & curves[b].keys()
        if not both:
            continue
        points = min(len(curves[b][seed].values) for seed in both)
        found = matches_across_seeds(curves[a], curves[b])
        if points < LEAST_POINTS:
            why = (
                f"{b} was measured on selection {points} times, at least {LEAST_POINTS} are needed"
            )
            told.append({"a": a, "b": b, "refused": why, "reached": None, "median_share": None,
                         "by_seed": {}})  # fmt: skip
            continue
        by_seed = {str(seed): asdict(match) for seed, match in found.by_seed.items()}
        told.append({"a": a, "b": b, "refused": "", **asdict(found), "by_seed": by_seed})
    return told


def _band(curves: Mapping[int, Curve]) -> list[dict[str, float]]:
    """Return the mean curve and its band (a t interval from five seeds on, else the range)."""
    if not curves:
        return []
    band = average(list(curves.values()))
    columns = (band.rollouts, band.mean, band.low, band.high)
    names = ("rollouts", "mean", "low", "high")
    return [
        dict(zip(names, row, strict=True))
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _gain(done: Sequence[RunRecord]) -> dict[str, float] | None:
    """Return the reported pairs minus the pairs that their runs began with, with its interval."""
    if all(_same_pair(run) for run in done):
        return {"mean": 0.0, "low": 0.0, "high": 0.0} if done else None
    reported, start = ({run.seed: run.means[name] for run in done} for name in (REPORTED, START))
    return _interval(difference(reported, start).interval)


def _same_pair(run: RunRecord) -> bool:
    ends = run.pairs[REPORTED], run.pairs[START]
    return all(ends[0][key] == ends[1][key] for key in ("harness_id", "weights_id"))


def _optimism(done: Sequence[RunRecord]) -> float | None:
    """Return by how much more the reported pairs gain over the start on selection than on test.

    The start was not chosen, so its own gap is the splits' difference in difficulty.
    """
    known = [(run, at) for run in done if (at := run.decided_at) is not None]
    if len(known) < len(done) or not done:
        return None
    on_selection = [run.points[at].mean - run.points[0].mean for run, at in known]
    on_test = [float(run.final["mean"]) - float(run.pairs[START]["mean"]) for run in done]
    return selection_optimism(on_selection, on_test).mean


def _best(conditions: Sequence[Condition]) -> dict[str, Json] | None:
    """Return the condition with the best mean on test, with words for what that choice does."""
    scores = {each.name: fmean(each.scores.values()) for each in conditions if each.scores}
    if not scores:
        return None
    best = best_on_test(scores)
    label = best.label if best.of > 1 else ""
    return {"condition": best.name, "mean": best.mean, "of": best.of, "label": label}


def _lengths(done: Sequence[RunRecord], kind: str) -> dict[str, Json] | None:
    """Return how long all runs' phases of a kind were."""
    found = phase_lengths([p.length for run in done for p in run.points if p.kind == kind])
    return None if found is None else asdict(found)


def _pass_at(done: Sequence[RunRecord]) -> dict[str, Json]:
    """Return by k the mean pass@k over seeds, with a t interval where there are enough."""
    made = {}
    for k in dict.fromkeys(k for run in done for k in run.pass_at):
        told = across_seeds({run.seed: run.pass_at[k].mean for run in done if k in run.pass_at})
        made[k] = {"mean": told.mean, "low": None, "high": None, **(_interval(told.interval) or {})}
    return made


class _Examples:
    """The test examples that runs share, listed once; a run then names the list."""

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {}

    def of(self, run: RunRecord) -> dict[str, Json]:
        """Return a run's example means as lists beside the name of their examples."""
        if not run.means:
            return {"examples": None, "means": {}}
        names = sorted({name for means in run.means.values() for name in means})
        key = json_hash(names)
        self.known.setdefault(key, names)
        rounded = {
            pair: [None if (m := means.get(name)) is None else round(m, 6) for name in names]
            for pair, means in run.means.items()
        }
        return {"examples": key, "means": rounded}


def _spent(run: RunRecord, unit: str) -> float:
    return run.seconds if unit == "seconds" else float(run.spent.get(unit, 0.0))


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else asdict(interval)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _means(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each entry over the tables that have it."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: fmean([t[name] for t in tables if name in t]) for name in names}


def _one(names: set[str]) -> str:
    return names.pop() if len(names) == 1 else ", ".join(sorted(names))
