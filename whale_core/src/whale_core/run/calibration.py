"""What rollouts, weight steps and checkpoints cost here, from a few real ones.

The executor, engine, verifier and model update are those of the run; the rollouts are of the weight
split, under the first harness and the initial weights. Nothing is kept, and no run is touched. The
weight steps train on these rollouts with made-up rewards, so that there is something to train on:
afterwards the engine's weights are worth nothing.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from attrs import define, evolve, field, frozen
from scipy.optimize import nnls

from whale_core.abilities import StepPlan
from whale_core.config.settings import CoreSettings
from whale_core.errors import WhaleError
from whale_core.keys import DrawKey
from whale_core.records import Example, Outcome, Trajectory, Verdict
from whale_core.roles import Group, Harness, ModelUpdate, RolloutEngine, WeightStep
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import NullPolicy, Policy
from whale_core.rollout.rows import build_rows
from whale_core.run.checkpoints import optimizer_folder, write_checkpoint
from whale_core.run.contexts import write_rows
from whale_core.run.folder import record_line
from whale_core.run.parts import Parts, executor_of, policy_of
from whale_core.run.stored import trajectory_json

SMALL, WIDE, DEEP = 4, 32, 128  # rollouts of the three shapes of batch that are timed
STEP = StepPlan(prompts=24, group_size=8)  # where a model update does not say
FEW, MORE = 8, 40  # rewarded trajectories of the timed weight steps
PATIENCE_SECONDS = 30.0  # a batch that took longer is the last one, and so is a weight step


@frozen
class TrainingCost:
    """What training takes, in seconds: for each optimizer step, and for each trained token."""

    update_seconds: float
    token_seconds: float


@frozen
class CheckpointCost:
    """What a checkpoint takes."""

    weights_bytes: int
    optimizer_bytes: int
    seconds: float


@frozen
class Calibration:
    """What was measured. Tokens and bytes are means over one rollout.

    A batch takes ``batch_seconds``, ``prompt_seconds`` for each prompt in it, and
    ``rollout_seconds`` for each draw. ``training`` and ``checkpoint`` are None where there is no
    model update or where ``notes`` say why they could not be measured.
    """

    rollouts: int
    batch_seconds: float
    prompt_seconds: float
    rollout_seconds: float
    null_seconds: float
    prompt_tokens: float
    sampled_tokens: float
    trajectory_bytes: float
    row_bytes: float
    peak_memory_mb: float
    reward: float
    seconds: float = 0.0
    training: TrainingCost | None = None
    checkpoint: CheckpointCost | None = None
    notes: tuple[str, ...] = ()


async def calibrate(
    parts: Parts, core: CoreSettings, step: StepPlan | None, folder: Path
) -> Calibration:
    """Measure in the empty folder ``folder``, which the caller deletes.

    Raises:
        WhaleError: rollouts cannot be made at all.
    """
    started = time.monotonic()
    bench = _Bench(parts, core)
    timed, made = await bench.shapes(step or STEP)
    batch, prompt, draw = _fitted(timed)
    flat = [trajectory for group in made for trajectory in group]
    lost = [t for t in flat if t.outcome is Outcome.NOT_SCORED]
    notes = []
    if lost:
        notes.append(f"{len(lost)} of {len(flat)} rollouts could not be scored: {lost[0].reason}")
    if len(timed) < 3:
        notes.append("rollouts are slow here: times are extrapolated from very few")
    rows = [row for index, t in enumerate(flat) for row in build_rows(t.calls, index)]
    write_rows(folder / "rows.npz", rows, flat)
    weight = folder / "weights"
    weight.mkdir()
    training, checkpoint = None, None
    null_seconds = await bench.null_seconds()
    if parts.update is not None:
        try:
            training = await bench.training(parts.update, made)
            checkpoint = await _checkpoint(folder, parts.engine, parts.update)
        except (WhaleError, ValueError, IndexError) as error:
            notes.append(f"weight steps could not be measured: {error}")
    return Calibration(
        rollouts=bench.made,
        batch_seconds=batch,
        prompt_seconds=prompt,
        rollout_seconds=draw,
        null_seconds=null_seconds,
        prompt_tokens=float(np.mean([t.spent.prompt_tokens for t in flat])),
        sampled_tokens=float(np.mean([t.spent.sampled_tokens for t in flat])),
        trajectory_bytes=float(np.mean([_line_bytes(t) for t in flat])),
        row_bytes=(folder / "rows.npz").stat().st_size / len(flat),
        peak_memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        reward=float(np.mean([t.reward for t in flat])),
        seconds=time.monotonic() - started,
        training=training,
        checkpoint=checkpoint,
        notes=tuple(notes),
    )


Shape = tuple[int, int, float]  # prompts, rollouts, seconds


@define
class _Bench:
    parts: Parts
    core: CoreSettings
    made: int = 0
    policy: Policy = field(init=False)
    executor: RolloutExecutor = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.policy = policy_of(self.parts.engine, self.core.rollout)
        self.executor = executor_of(self.parts)

    async def shapes(self, step: StepPlan) -> tuple[list[Shape], list[list[Trajectory]]]:
        """Time a small batch, a wide one and one like a weight step's; return the last one's
        trajectories, too."""
        group = min(step.group_size, DEEP)
        plans = ((SMALL, 1), (WIDE, 1), (min(step.prompts, max(1, DEEP // group)), group))
        await self._rolled_out(self._examples(1), 1)  # what is set up once is no part of the times
        timed: list[Shape] = []
        groups: list[list[Trajectory]] = []
        for count, draws in plans:
            examples = self._examples(count)
            started = time.monotonic()
            groups = await self._rolled_out(examples, draws)
            seconds = time.monotonic() - started
            timed.append((len(examples), len(examples) * draws, seconds))
            if seconds > PATIENCE_SECONDS:
                break
        return timed, groups

    async def null_seconds(self) -> float:
        """Return what an episode with a null model takes."""
        nulls = self.parts.domain.null_models
        if not nulls:
            return 0.0
        jobs = [_job(e, self.parts.h0, self.core.seed, 0) for e in self.parts.null_examples]
        started = time.monotonic()
        await self.executor.run(jobs, NullPolicy(nulls[0], self.parts.engine.tokenizer))
        return (time.monotonic() - started) / len(jobs)

    async def training(
        self, update: ModelUpdate, made: Sequence[Sequence[Trajectory]]
    ) -> TrainingCost:
        """Time two weight steps, after one that sets things up.

        Raises:
            ValueError: a step made no update.
        """
        context = _MadeUp(
            self.parts.engine, self.parts.h0, self.core.seed, self._examples(len(made)), made
        )
        steps = update.steps(context)
        done: list[WeightStep] = []
        try:
            async for report in steps:
                done.append(report)
                slow = report.seconds - report.rollout_seconds > PATIENCE_SECONDS
                if slow or len(done) == len(context.rewarded):
                    break
        finally:
            await steps.aclose()
        if not all(report.updates for report in done):
            raise ValueError("a weight step made no update")
        if len(done) < len(context.rewarded):  # too few to tell updates and tokens apart
            last = done[-1]
            return TrainingCost((last.seconds - last.rollout_seconds) / last.updates, 0.0)
        costs = [report.seconds - report.rollout_seconds for report in done[1:]]
        counts = [[report.updates, report.trained_tokens] for report in done[1:]]
        (per_update, per_token), _ = nnls(np.array(counts, float), np.array(costs, float))
        return TrainingCost(float(per_update), float(per_token))

    def _examples(self, count: int) -> Sequence[Example]:
        return self.parts.domain.split("weight")[:count]

    async def _rolled_out(self, examples: Sequence[Example], draws: int) -> list[list[Trajectory]]:
        await self.policy.forget()
        seed, h0 = self.core.seed, self.parts.h0
        jobs = [_job(e, h0, seed, draw) for e in examples for draw in range(draws)]
        made = await self.executor.run(jobs, self.policy)
        self.made += len(made)
        return [made[i : i + draws] for i in range(0, len(made), draws)]


@define
class _MadeUp:
    """A ``WeightContext`` that gives the same trajectories out in every step, some rewarded."""

    engine: RolloutEngine
    harness: Harness
    seed: int
    examples: Sequence[Example]
    made: Sequence[Sequence[Trajectory]]
    rewarded: tuple[int, ...] = (FEW, FEW, MORE)
    next_step: int = 1

    def next_prompts(self, count: int) -> list[Example]:
        """Return ``count`` prompts, the few there are over and over."""
        return [self.examples[index % len(self.examples)] for index in range(count)]

    def best_harnesses(self, count: int) -> list[Harness]:
        """Return the harness alone."""
        return [self.harness]

    async def rollout(
        self,
        prompts: Sequence[Example],
        group_size: int,
        step: int,
        harnesses: Sequence[Harness] | None = None,
    ) -> list[Group]:
        """Return groups of the made trajectories, ``rewarded[step - 1]`` of them with reward 1."""
        count = len(prompts) * group_size
        wanted = min(self.rewarded[step - 1], count)
        chosen = set(np.linspace(0, count - 1, wanted).round().astype(int).tolist())
        groups = []
        for place, prompt in enumerate(prompts):
            of_prompt = self.made[place % len(self.made)]
            group = [
                _judged(of_prompt[draw % len(of_prompt)], place * group_size + draw in chosen)
                for draw in range(group_size)
            ]
            rows = tuple(build_rows(t.calls, place * group_size + i) for i, t in enumerate(group))
            groups.append(Group(prompt, tuple(group), rows))
        return groups


def _judged(trajectory: Trajectory, rewarded: bool) -> Trajectory:
    outcome = Outcome.PASS if rewarded else Outcome.FAIL
    return evolve(trajectory, outcome=outcome, verdict=Verdict(float(rewarded)), reason=None)


def _job(example: Example, harness: Harness, seed: int, draw: int) -> Job:
    return Job(example, harness, DrawKey(seed, "smoke", 0, 0, example.id, draw))


def _fitted(timed: Sequence[Shape]) -> tuple[float, float, float]:
    """Return seconds per batch, prompt and draw that explain the shapes, none below zero."""
    if len(timed) < 3:  # too few to tell them apart
        _, rollouts, seconds = timed[-1]
        return 0.0, 0.0, seconds / rollouts
    counts = np.array([[1, prompts, rollouts] for prompts, rollouts, _ in timed], float)
    # Each shape counts alike, whatever it took.
    seconds_of = np.array([seconds for *_, seconds in timed])
    weights = 1.0 / seconds_of
    (batch, prompt, draw), _ = nnls(counts * weights[:, None], seconds_of * weights)
    return float(batch), float(prompt), float(draw)


async def _checkpoint(folder: Path, engine: RolloutEngine, update: ModelUpdate) -> CheckpointCost:
    started = time.monotonic()
    await write_checkpoint(folder, "calibration", engine, update)
    seconds = time.monotonic() - started
    weights = folder / "weights" / "calibration"
    return CheckpointCost(_size(weights), _size(optimizer_folder(weights)), seconds)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _line_bytes(trajectory: Trajectory) -> int:
    return len(record_line(trajectory_json(trajectory)))
