"""The method: sample, keep what the verifier accepts, raise its likelihood, repeat.

Departures from the released code, all towards the published formula: a minibatch counts
trajectories globally, and its loss is the mean over *all* its trained tokens. Ours: fewer than
``min_accepted`` accepted trajectories wait for the next step of the phase. No update happens in
between, so they are still samples of the policy that trains on them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from attrs import evolve

from whale_core.abilities import StepPlan
from whale_core.errors import InputError, TooMuchNotScored, TrainerError
from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.records import Example, Outcome, Row, Spent
from whale_core.roles import (
    Group,
    Harness,
    RolloutEngine,
    TrainedRollout,
    WeightContext,
    WeightStep,
)
from whale_core.rollout.rows import forked_share
from whale_rsft.accepted import Rows, accepted_of
from whale_rsft.config import Config
from whale_rsft.trainers import Trainer, Updates, make_trainer, trained_tokens

T = TypeVar("T")
MOST_REFUSED = 3  # weight steps in a row with refused updates only: then something is wrong


class RSFT:
    """ModelUpdate ``rsft``. The trainer, and with it the optimizer state, lives across phases."""

    def __init__(self, config: Config, setup: Setup) -> None:
        """Take the settings; nothing is allocated before the first update."""
        self._config = config
        self._trainer: Trainer = make_trainer(config, setup.seed)

    async def probe(self) -> Spent:
        """Check that what the trainer needs is installed.

        Raises:
            InputError: it is not.
        """
        self._trainer.check()
        return Spent()

    def steps_per_epoch(self, prompts: int) -> int:
        """Return how many whole prompt batches ``prompts`` prompts make.

        Raises:
            InputError: not even one batch.
        """
        if prompts < self._config.prompts:
            raise InputError(
                f"rsft: prompts={self._config.prompts} is more than the {prompts} prompts there "
                "are to train on: make the prompt batch smaller or give more data"
            )
        return prompts // self._config.prompts

    def planned_step(self) -> StepPlan:
        """Return what every step rolls out; all accepted, it makes the most updates."""
        config = self._config
        each = min(config.group_size, config.max_accepted_per_prompt or config.group_size)
        most = -(-config.prompts * each // config.minibatch)
        return StepPlan(config.prompts, config.group_size, most)

    async def steps(self, context: WeightContext) -> AsyncGenerator[WeightStep, None]:
        """Yield after each weight step (= one prompt batch), without end.

        Raises:
            InputError: the trainer's settings do not fit the engine or its model.
            RunFolderError: the engine serves other weights than those trained so far.
            TooMuchNotScored: none of a step's rollouts was scored.
            TrainerError: an update failed, or ``MOST_REFUSED`` steps in a row were refused.
        """
        await self._trainer.prepare(context.engine)  # what does not fit is said before rollouts
        step = context.next_step
        refused = 0  # steps in a row
        waiting: list[Rows] = []  # accepted earlier in this phase, not yet trained on
        named: list[TrainedRollout] = []  # the same, for the report
        most = self._config.harness_mixture
        best = context.best_harnesses(most) if most > 1 else []
        while True:
            started = time.perf_counter()
            prompts = context.next_prompts(self._config.prompts)
            harnesses = mixture(best, prompts, context.seed, step)
            groups = await context.rollout(prompts, self._config.group_size, step, harnesses)
            rolled_out = time.perf_counter()
            facts = _rollout_facts(step, groups)

            accepted = accepted_of(groups, self._config)
            ready = waiting + accepted.trajectories
            named += _named(step, groups, accepted.trajectories)
            waiting = ready if len(ready) < self._config.min_accepted else []
            batches = [] if waiting else near_equal(ready, self._config.minibatch)
            done = await self._trainer.train(_rows(batches), context.engine)
            minibatches = [] if waiting else near_equal(named, self._config.minibatch)
            named = named if waiting else []

            if done.updates:
                refused = 0 if any(update.made for update in done.updates) else refused + 1
            yield evolve(
                _trained_facts(facts, done),
                accepted=len(accepted.trajectories),
                unsettled=bool(waiting or refused),
                seconds=time.perf_counter() - started,
                rollout_seconds=rolled_out - started,
                metrics={**_metrics(groups, done, waiting), **accepted.left_out},
                trained_on=_trained_on(minibatches, done),
            )
            if refused == MOST_REFUSED:
                raise TrainerError(
                    f"the last {refused} weight steps (to step {step}) had no finite gradient and "
                    "were refused: start anew with a smaller model_update.lr, or another dtype of "
                    "the engine"
                )
            step += 1

    async def save(self, path: Path) -> None:
        """Write the optimizer state into the folder ``path``."""
        await self._trainer.save(path)

    async def load(self, path: Path, engine: RolloutEngine) -> None:
        """Restore the optimizer state; ``engine`` already serves the matching weights.

        Raises:
            RunFolderError: no state there, or it belongs to other weights.
        """
        await self._trainer.load(path, engine)

    async def close(self) -> None:
        """Free what the trainer holds. Idempotent."""
        await self._trainer.close()


def mixture(
    best: Sequence[Harness], prompts: Sequence[Example], seed: int, step: int
) -> list[Harness] | None:
    """Return for each prompt one of the ``best`` harnesses, all equally likely; None where there
    is one harness alone. A function of seed, step and prompt."""
    if len(best) < 2:
        return None
    draws = (generator(seed, "harness-mixture", step, prompt.id) for prompt in prompts)
    return [best[int(draw.integers(len(best)))] for draw in draws]


def near_equal(trajectories: Sequence[T], size: int) -> list[list[T]]:
    """Split into ``ceil(n / size)`` minibatches in order, their sizes at most one apart."""
    count = -(-len(trajectories) // size)
    bounds = [len(trajectories) * i // count for i in range(count + 1)] if count else [0]
    return [list(trajectories[a:b]) for a, b in pairwise(bounds)]


def _rollout_facts(step: int, groups: Sequence[Group]) -> WeightStep:
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    rewards = [t.reward for t in trajectories if t.outcome is not Outcome.NOT_SCORED]
    if not rewards:
        reasons = sorted({trajectory.reason or "" for trajectory in trajectories})
        raise TooMuchNotScored(
            f"weight step {step}: none of its {len(trajectories)} rollouts could be scored "
            f"({'; '.join(reasons)[:300]})"
        )
    return WeightStep(
        step=step,
        prompts=len(groups),
        rollouts=len(trajectories),
        scored=len(rewards),
        accepted=0,
        reward=sum(rewards) / len(rewards),
        updates=0,
    )


def _rows(batches: Sequence[Sequence[Rows]]) -> list[list[Row]]:
    """Return each minibatch's rows, its trajectories numbered from 0."""
    return [
        [evolve(row, trajectory=number) for number, rows in enumerate(batch) for row in rows]
        for batch in batches
    ]


def _named(step: int, groups: Sequence[Group], accepted: Sequence[Rows]) -> list[TrainedRollout]:
    """Return which rollout of ``step`` each accepted trajectory is, in their order."""
    keys = {
        rows[0].trajectory: trajectory.key
        for group in groups
        for trajectory, rows in zip(group.trajectories, group.rows, strict=True)
        if rows
    }
    found = []
    for rows in accepted:
        key = keys[rows[0].trajectory] if rows else None  # one without rows trains nothing
        example, draw = ("", 0) if key is None else (key.example_id, key.draw)
        found.append(TrainedRollout(step, example, draw, trained_tokens(rows)))
    return found


def _trained_on(
    minibatches: Sequence[Sequence[TrainedRollout]], done: Updates
) -> tuple[TrainedRollout, ...]:
    """Return the rollouts of the updates that were made; without a token there is no update."""
    trained = [batch for batch in minibatches if any(each.tokens for each in batch)]
    return tuple(
        each
        for batch, update in zip(trained, done.updates, strict=False)
        if update.made
        for each in batch
        if each.tokens
    )


def _trained_facts(facts: WeightStep, done: Updates) -> WeightStep:
    """Fill in what training adds: loss and gradient norm are means over the updates made."""
    made = [update for update in done.updates if update.made]
    divisor = sum(update.divisor for update in made)
    return evolve(
        facts,
        updates=len(made),
        trained_tokens=sum(update.tokens for update in made),
        loss=sum(update.loss.nll for update in made) / divisor if made else None,
        grad_norm=sum(update.grad_norm for update in made) / len(made) if made else None,
        changed_share=done.changed_share,
    )


def _metrics(
    groups: Sequence[Group], done: Updates, waiting: Sequence[Rows]
) -> Mapping[str, float]:
    """Return counts, the share of calls that opened another row, and the log-probability gap.

    The gap is how far the first update's log-probabilities were from the engine's.
    That update is on-policy, so at temperature 1 the gap is rounding alone; a large one means that
    engine and trainer do not run the same model.
    """
    made = [update.made for update in done.updates]
    forked = [
        forked_share(trajectory.calls, rows)
        for group in groups
        for trajectory, rows in zip(group.trajectories, group.rows, strict=True)
    ]
    metrics = {
        "starved": float(not any(made)),
        "refused": float(made.count(False)),
        "waiting": float(len(waiting)),
        "forked_share": sum(forked) / len(forked) if forked else 0.0,
        "computed_tokens": float(sum(update.computed_tokens for update in done.updates)),
    }
    if any(made[:1]):
        metrics["logprob_gap"] = done.updates[0].loss.gap / done.updates[0].divisor
    return metrics
