"""What the core hands to the two coordinates: a context for one phase."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from attrs import define

from whale_core.jail import HarnessLoadError, open_jail
from whale_core.records import Example, Outcome, Row, Trajectory
from whale_core.roles import Domain, Group, Harness, NullResult, RolloutEngine, Score
from whale_core.rollout.policy import NullPolicy
from whale_core.rollout.rows import build_rows
from whale_core.run.folder import write_atomically
from whale_core.run.rollouts import Rollouts, score_of
from whale_core.run.sampler import PromptSampler
from whale_core.stats import exceeds_chance

NULL_ERROR_RATE = 0.001  # per null model: a clean harness is refused once in a thousand
SMOKE_EXAMPLES = 4
CRASHES = ("error", "died", "stalled", "bytes", "protocol", "cpu", "memory", "context", "env calls")


@define
class WeightPhaseContext:
    """Implements ``whale_core.roles.WeightContext``."""

    engine: RolloutEngine
    harness: Harness
    seed: int
    next_step: int
    sampler: PromptSampler
    rollouts: Rollouts

    def next_prompts(self, count: int) -> list[Example]:
        """Take the next prompts of D_weight."""
        return self.sampler.next(count)

    async def rollout(self, prompts: Sequence[Example], group_size: int, step: int) -> list[Group]:
        """Roll out ``group_size`` draws of each prompt; rows are written down for replay."""
        at = (self.rollouts.cycle, step)
        jobs = self.rollouts.jobs(self.harness, prompts, group_size, "train", at)
        trajectories = await self.rollouts.make(jobs)
        groups = []
        for index, prompt in enumerate(prompts):
            start = index * group_size
            group = trajectories[start : start + group_size]
            rows = tuple(build_rows(t.calls, start + i) for i, t in enumerate(group))
            groups.append(Group(prompt, tuple(group), rows))
        path = self.rollouts.folder.path / "rows" / f"step-{step:06d}.npz"
        write_rows(
            path, [row for group in groups for rows in group.rows for row in rows], trajectories
        )
        return groups


@define
class SearchPhaseContext:
    """Implements ``whale_core.roles.SearchContext``."""

    domain: Domain
    harness: Harness
    weights_id: str
    cycle: int
    phase: int
    seed: int
    folder: Path
    examples: Sequence[Example]
    null_examples: Sequence[Example]
    draws: int
    jail_kind: str
    rollouts: Rollouts

    async def score(self, harnesses: Sequence[Harness]) -> list[Score]:
        """Score all in one pool on the same examples and draw keys."""
        per = len(self.examples) * self.draws
        jobs = [
            job
            for harness in harnesses
            for job in self.rollouts.jobs(harness, self.examples, self.draws, "score")
        ]
        made = await self.rollouts.make(jobs) if jobs else []
        return [
            score_of(harness.id, self.weights_id, made[i * per : (i + 1) * per])
            for i, harness in enumerate(harnesses)
        ]

    async def load_check(self, harness: Harness) -> str | None:
        """Load the harness in a jail of its own; return the error in one line, or None."""
        try:
            async with open_jail(harness.source, self.domain.limits, self.jail_kind):
                return None
        except HarnessLoadError as error:
            return str(error)

    async def smoke(self, harness: Harness) -> str | None:
        """Run a few real episodes; return why one crashed or could not be scored, or None."""
        jobs = self.rollouts.jobs(harness, self.examples[:SMOKE_EXAMPLES], 1, "smoke")
        made = await self.rollouts.make(jobs)
        crashed = [
            t
            for t in made
            if t.reason is not None
            and (t.outcome is Outcome.NOT_SCORED or t.reason.startswith(CRASHES))
        ]
        return crashed[0].reason if crashed else None

    async def null_check(self, harness: Harness) -> list[NullResult]:
        """Run the domain's null models under the harness."""
        return await null_results(harness, self.domain, self.null_examples, self.rollouts)


async def null_results(
    harness: Harness, domain: Domain, examples: Sequence[Example], rollouts: Rollouts
) -> list[NullResult]:
    """Score each null model of ``domain`` under ``harness``; no policy is involved.

    One is ``refused`` when it passes more often than its chance level allows (one-sided exact
    binomial test) and it is of the refusing kind: then the harness solves the task itself.
    """
    views = [domain.environment(example).view() for example in examples]
    results = []
    for null in domain.null_models:
        jobs = rollouts.jobs(harness, examples, 1, "null")
        made = await rollouts.make(jobs, NullPolicy(null, rollouts.tokenizer))
        passed = sum(t.outcome == "pass" for t in made)
        chance = null.chance(views)
        refused = null.refuses and exceeds_chance(passed, len(made), chance) < NULL_ERROR_RATE
        results.append(NullResult(null.name, passed / len(made), chance, len(made), refused))
    return results


def write_rows(path: Path, rows: Sequence[Row], trajectories: Sequence[Trajectory]) -> None:
    """Write a step's rows as one ``.npz``: concatenated arrays with row lengths, and the reward of
    the trajectory that each row belongs to (NaN where it was not scored)."""
    rewards = [
        np.nan if t.outcome == "not_scored" else t.reward
        for t in (trajectories[row.trajectory] for row in rows)
    ]

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez_compressed(
                file,
                input_ids=_joined([row.input_ids for row in rows], np.int32),
                loss_mask=_joined([row.loss_mask for row in rows], np.uint8),
                logprobs=_joined([row.logprobs for row in rows], np.float32),
                lengths=np.array([len(row.input_ids) for row in rows], np.int64),
                trajectory=np.array([row.trajectory for row in rows], np.int64),
                reward=np.array(rewards, np.float32),
            )

    write_atomically(path, write)


def _joined(arrays: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)
