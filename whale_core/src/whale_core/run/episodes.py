"""Rollouts outside a run: some episodes of a domain, to look at or to measure a pair."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from whale_core.config.settings import CoreSettings, SelectionSettings
from whale_core.errors import InputError, TooMuchNotScored
from whale_core.frames import frame
from whale_core.keys import DrawKey
from whale_core.plugins.manager import Observers
from whale_core.plugins.suggest import did_you_mean
from whale_core.records import Example, Json, Outcome, Trajectory
from whale_core.roles import Harness, Score
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import blocks
from whale_core.run.evaluation import Pair, PairScore, pair_score
from whale_core.run.parts import (
    RolloutParts,
    check_loads,
    chosen_examples,
    executor_of,
    policy_of,
    sampling_of,
)
from whale_core.run.rollouts import most_not_scored, score_of
from whale_core.run.sealed import SEALED
from whale_core.run.services import close_each, probe_all
from whale_core.run.stopping import stopping_at_once

OPEN_SPLITS = ("weight", "harness", "selection")
COLUMNS = ("example", "draw", "outcome", "reward", "reason", "answer")


@frozen
class Episodes(Sequence[Trajectory]):
    """Trajectories of one harness and one policy: ``draws`` of each example, in order."""

    trajectories: tuple[Trajectory, ...]
    examples: Mapping[str, Example]  # by id; what a harness never sees is in their ``content``
    harness: Harness
    weights_id: str

    def __len__(self) -> int:
        return len(self.trajectories)

    def __getitem__(self, index: Any) -> Any:
        return self.trajectories[index]

    def __iter__(self) -> Iterator[Trajectory]:
        return iter(self.trajectories)

    def __repr__(self) -> str:
        return f"{len(self)} episodes of {self.harness.name}, mean reward {self.score.mean:.3f}"

    @property
    def score(self) -> Score:
        """What they scored: the mean over examples of the mean over scored draws."""
        return score_of(self.harness.id, self.weights_id, self.trajectories)

    def to_frame(self) -> Any:
        """Return one row per episode as a ``pandas.DataFrame``.

        Raises:
            InputError: pandas is not installed.
        """
        return frame([_row(trajectory) for trajectory in self], COLUMNS)


@frozen
class Asked:
    """Which episodes are wanted: ``draws`` of each of ``examples`` examples of a split.

    None is as many as the settings ``selection`` say; ``checkpoint`` is a folder of weights, None
    the engine's initial model.
    """

    split: str
    examples: int | None
    draws: int | None
    purpose: str  # in the draw keys
    checkpoint: Path | None = None

    def checked(self, settings: SelectionSettings) -> tuple[int, int]:
        """Return how many examples and draws are wanted.

        Raises:
            InputError: less than one, a split that is sealed, or one that no domain has.
        """
        if self.split == "test":
            raise InputError(SEALED)
        if self.split not in OPEN_SPLITS:
            hint = did_you_mean(str(self.split), OPEN_SPLITS)
            raise InputError(f"split={self.split!r}: there is no such split{hint}")
        examples = settings.examples if self.examples is None else self.examples
        draws = settings.draws if self.draws is None else self.draws
        for name, value in (("examples", examples), ("draws", draws)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise InputError(f"{name}={value!r}: expected a whole number")
            if value < 1:
                raise InputError(f"{name}={value}: give at least 1")
        return examples, draws


def roll_out(
    parts: RolloutParts, core: CoreSettings, observers: Observers, asked: Asked
) -> Episodes:
    """Return the episodes that are ``asked`` for, and close the parts.

    Raises:
        InputError: the harness does not load, or the checkpoint does not fit the model.
        EngineError: the engine cannot say what it serves.
        KeyboardInterrupt: it was interrupted.
    """

    async def work() -> Episodes:
        try:
            with stopping_at_once():
                return await _episodes(parts, core, observers, asked)
        finally:
            await close_each(*parts.closing)

    return asyncio.run(work())


async def _episodes(
    parts: RolloutParts, core: CoreSettings, observers: Observers, asked: Asked
) -> Episodes:
    count, draws = asked.checked(core.selection)
    await check_loads(parts)
    await probe_all(parts.unsealed, parts.verifier, parts.engine, sampling_of(core.rollout))
    examples, too_few = chosen_examples(parts.domain, asked.split, count, asked.split)
    for note in (*parts.notes, too_few):
        if note:
            observers.on_notice(note)
    if asked.checkpoint is not None:
        await parts.engine.load(asked.checkpoint)
    policy, executor = policy_of(parts.engine, core.rollout), executor_of(parts)
    jobs = [
        Job(example, parts.h0, DrawKey(core.seed, asked.purpose, 0, 0, example.id, draw))
        for example in examples
        for draw in range(draws)
    ]
    made: list[Trajectory] = []
    for block in blocks(jobs):
        await policy.forget()
        made += await executor.run(block, policy)
        executor.settle()  # no ledger waits for what was spent
        tokens = sum(trajectory.sampled_tokens for trajectory in made)
        observers.on_rollouts(asked.purpose, len(made), len(jobs), tokens)
    named = {example.id: example for example in examples}
    return Episodes(tuple(made), named, parts.h0, await policy.weights_id())


def measured(episodes: Episodes, asked: Asked, share: float) -> PairScore:
    """Return the score of the ``episodes`` that were ``asked`` for, with its interval.

    Raises:
        TooMuchNotScored: more than ``share`` of them could not be scored.
    """
    lost = [each for each in episodes if each.outcome is Outcome.NOT_SCORED]
    if len(lost) > most_not_scored(len(episodes), share):
        reasons = "; ".join(sorted({each.reason or "" for each in lost}))[:300]
        raise TooMuchNotScored(
            f"{len(lost)} of {len(episodes)} rollouts could not be scored, more than "
            f"rollout.max_not_scored={share} allows: {reasons}; mend that and try again"
        )
    folder = None if asked.checkpoint is None else str(asked.checkpoint)
    pair = Pair(episodes.harness, folder, episodes.weights_id)
    draws = len(episodes) // len(episodes.examples)
    examples = tuple(episodes.examples.values())
    return pair_score(pair, asked.split, draws, examples, episodes.trajectories)


def _row(trajectory: Trajectory) -> dict[str, Json]:
    scored = trajectory.outcome is not Outcome.NOT_SCORED
    return {
        "example": trajectory.example_id,
        "draw": trajectory.key.draw,
        "outcome": str(trajectory.outcome),
        "reward": trajectory.reward if scored else np.nan,
        "reason": trajectory.reason,
        "answer": trajectory.answer,
        "model_calls": len(trajectory.calls),
        "env_calls": len(trajectory.events),
        "sampled_tokens": trajectory.sampled_tokens,
        "cpu_seconds": trajectory.cpu_seconds,
        "seconds": trajectory.seconds,
        **{f"metric.{name}": value for name, value in trajectory.metrics.items()},
    }
