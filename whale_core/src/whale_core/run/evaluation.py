"""Measuring a pair (θ, h) on a split: the one evaluator for selection and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from attrs import field, frozen

from whale_core.errors import InputError, RunFolderError
from whale_core.plugins.events import Evaluation
from whale_core.records import Example, Json, Trajectory
from whale_core.roles import Harness, RolloutEngine
from whale_core.run.passes import Passes, count_passes
from whale_core.run.rollouts import Rollouts, score_of
from whale_core.stats import Interval, mean_interval


@frozen
class Pair:
    """A pair of harness and weights; ``checkpoint`` is a folder name under ``weights/``, or None
    for the initial weights."""

    harness: Harness
    checkpoint: str | None
    weights_id: str


@frozen
class PairScore:
    """What a pair scored on a split: mean over examples of the mean over draws, with interval."""

    pair: Pair
    split: str
    draws: int
    interval: Interval
    means: Mapping[str, float]  # example id -> mean over its scored draws
    metrics: Mapping[str, float]
    parts: Mapping[str, float] = field(factory=dict)  # of verdicts, mean over those that have it
    sources: Mapping[str, Mapping[str, Json]] = field(factory=dict)  # examples and mean of each
    passes: Passes = field(factory=dict)  # of each example's scored draws

    def as_json(self) -> dict[str, Json]:
        """Return everything but the harness source."""
        return {
            "harness": self.pair.harness.name,
            "harness_id": self.pair.harness.id,
            "weights_id": self.pair.weights_id,
            "split": self.split,
            "examples": len(self.means),
            "draws": self.draws,
            "mean": self.interval.mean,
            "low": self.interval.low,
            "high": self.interval.high,
            "metrics": dict(self.metrics),
            "parts": dict(self.parts),
            "sources": {name: dict(each) for name, each in self.sources.items()},
            "means": dict(self.means),
            "passes": {name: list(counts) for name, counts in self.passes.items()},
        }

    @classmethod
    def from_json(cls, pair: Pair, data: Mapping[str, Json]) -> PairScore:
        """Return the score that ``as_json`` wrote down."""
        interval = Interval(data["mean"], data["low"], data["high"])
        return cls(
            pair,
            data["split"],
            data["draws"],
            interval,
            data["means"],
            data["metrics"],
            data.get("parts", {}),  # older runs have none
            data.get("sources", {}),
            {name: (passed, of) for name, (passed, of) in data.get("passes", {}).items()},
        )

    def event(self, name: str) -> Evaluation:
        """Return the observers' record of this score."""
        return Evaluation(
            pair=name,
            split=self.split,
            harness_id=self.pair.harness.id,
            weights_id=self.pair.weights_id,
            examples=len(self.means),
            draws=self.draws,
            mean=self.interval.mean,
            low=self.interval.low,
            high=self.interval.high,
            metrics=dict(self.metrics),
        )


async def measure(
    rollouts: Rollouts,
    pair: Pair,
    split: str,
    examples: Sequence[Example],
    draws: int,
    purpose: str,
) -> PairScore:
    """Roll out ``draws`` draws of each example under ``pair``, whose weights are being served."""
    # The draw keys name neither harness nor weights nor phase: all pairs share random numbers.
    jobs = rollouts.jobs(pair.harness, examples, draws, purpose, at=(0, 0))
    return pair_score(pair, split, draws, examples, await rollouts.make(jobs))


def pair_score(
    pair: Pair, split: str, draws: int, examples: Sequence[Example], made: Sequence[Trajectory]
) -> PairScore:
    """Return what ``pair`` scored by the rollouts ``made``, ``draws`` of each of ``examples``."""
    score = score_of(pair.harness.id, pair.weights_id, made)
    means = {name: float(np.mean(values)) for name, values in score.rewards.items()}
    interval = mean_interval(np.array(list(means.values())), draws)
    return PairScore(
        pair,
        split,
        draws,
        interval,
        means,
        score.metrics,
        _part_means(made),
        _source_means(examples, means),
        count_passes(made),
    )


def _part_means(made: Sequence[Trajectory]) -> dict[str, float]:
    """Return the mean of each named part over the verdicts that have it."""
    parts: dict[str, list[float]] = {}
    for trajectory in made:
        if trajectory.verdict is not None:
            for name, value in trajectory.verdict.parts.items():
                parts.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in sorted(parts.items())}


def _source_means(
    examples: Sequence[Example], means: Mapping[str, float]
) -> dict[str, dict[str, Json]]:
    """Return how many scored examples each source has, and their mean."""
    sources: dict[str, list[float]] = {}
    for example in examples:
        if example.source and example.id in means:
            sources.setdefault(example.source, []).append(means[example.id])
    return {
        name: {"examples": len(values), "mean": float(np.mean(values))}
        for name, values in sorted(sources.items())
    }


async def load_pair(engine: RolloutEngine, run: Path, pair: Pair) -> None:
    """Serve the pair's weights. Raises ``RunFolderError`` when they are not what they were."""
    path = None if pair.checkpoint is None else run / "weights" / pair.checkpoint
    try:
        served = await engine.load(path)
    except InputError as error:
        raise RunFolderError(f"{error}; restore the run's own files from a copy") from error
    if served != pair.weights_id:
        raise RunFolderError(
            f"{path or 'the initial model'} now has weights {served}, but the run recorded "
            f"{pair.weights_id}: the files were changed, or dtype or model differ on this machine"
        )
