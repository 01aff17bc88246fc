"""θ ← ModelUpdate(θ; h): raise what did better than its group, lower what did worse."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from whale_core.abilities import LendsModule
from whale_core.errors import InputError, RunFolderError, TooMuchNotScored
from whale_core.plugins import Setup
from whale_core.records import Outcome, Row
from whale_core.roles import Group, RolloutEngine, WeightContext, WeightStep

from whale_example_policy_gradient.config import Config
from whale_example_policy_gradient.state import Masters

PASSES = 0.5  # a larger reward counts as accepted, in the report only
EPSILON = 1e-6


@frozen
class Weighted:
    """A training row and the advantage of its rollout."""

    row: Row
    advantage: float


@frozen
class Update:
    """What one pass over the batch did; sums are over sampled tokens."""

    loss: float
    norm: float
    clipped: float
    gap: float  # |log p - log q|


class ClippedPolicyGradient:
    """ModelUpdate ``clipped-pg``."""

    def __init__(self, config: Config, setup: Setup) -> None:
        """Take the settings; masters are made with the first update."""
        self._config = config
        self._masters: Masters | None = None

    def steps_per_epoch(self, prompts: int) -> int:
        """Return how many whole prompt batches ``prompts`` prompts make."""
        if prompts < self._config.prompts:
            raise InputError(
                f"clipped-pg: model_update.prompts={self._config.prompts}, but there are {prompts}"
            )
        return prompts // self._config.prompts

    async def steps(self, context: WeightContext) -> AsyncGenerator[WeightStep, None]:
        """Yield after each weight step, without end; the scheduler decides when to stop."""
        lender = _lender(context.engine)
        step = context.next_step
        while True:
            started = time.perf_counter()
            prompts = context.next_prompts(self._config.prompts)
            groups = await context.rollout(prompts, self._config.group_size, step)
            rolled_out = time.perf_counter()
            rewards = [reward for group in groups for reward in scored(group)]
            if not rewards:
                raise TooMuchNotScored(f"weight step {step}: no rollout could be scored")
            rows = [each for group in groups for each in weighted(group)]
            updates: list[Update] = []
            if rows:
                updates = await lender.borrow(partial(self._train, rows))
                await lender.refresh()
            tokens = sum(int(each.row.loss_mask.sum()) for each in rows)
            made = [update for update in updates if math.isfinite(update.norm)]
            yield WeightStep(
                step=step,
                prompts=len(groups),
                rollouts=sum(len(group.trajectories) for group in groups),
                scored=len(rewards),
                accepted=sum(reward > PASSES for reward in rewards),
                reward=fmean(rewards),
                updates=len(made),
                trained_tokens=tokens * len(made),
                loss=fmean(update.loss for update in made) if made else None,
                grad_norm=fmean(update.norm for update in made) if made else None,
                seconds=time.perf_counter() - started,
                rollout_seconds=rolled_out - started,
                metrics=_metrics(groups, made, tokens),
            )
            step += 1

    async def save(self, path: Path) -> None:
        """Write masters and optimizer state; an empty folder before the first update."""
        if self._masters is not None:
            await asyncio.to_thread(self._masters.write, path)

    async def load(self, path: Path, engine: RolloutEngine) -> None:
        """Restore what ``save`` wrote; ``engine`` serves the matching weights already."""

        def read(module: Any) -> None:
            device = next(module.parameters()).device
            self._masters = Masters.read(path, self._config.lr, device)
            if not self._masters.fit(dict(module.named_parameters())):
                raise RunFolderError(f"{path}: not the optimizer state of the weights served")

        self._masters = None
        if any(path.iterdir()):
            await _lender(engine).borrow(read)

    def _train(self, rows: Sequence[Weighted], module: Any) -> list[Update]:
        """Make ``passes`` updates on the served module; runs on the engine's thread."""
        parameters = dict(module.named_parameters())
        self._masters = self._masters or Masters(parameters, self._config.lr)
        for parameter in parameters.values():
            parameter.requires_grad_(True)
        try:
            return [self._pass(rows, module, parameters) for _ in range(self._config.passes)]
        finally:
            for parameter in parameters.values():
                parameter.grad = None
                parameter.requires_grad_(False)

    def _pass(self, rows: Sequence[Weighted], module: Any, parameters: Mapping[str, Any]) -> Update:
        assert self._masters is not None
        tokens = sum(int(each.row.loss_mask.sum()) for each in rows)
        loss = clipped = gap = 0.0
        for each in rows:
            with torch.enable_grad():
                token_losses, ratios, logps = self._token_losses(module, each)
                total = token_losses.sum() / tokens
                total.backward()  # type: ignore[no-untyped-call]
            self._masters.add_gradients(parameters)
            loss += total.item()
            moved = ratios.detach()
            clipped += float(
                ((moved < 1 - self._config.clip_low) | (moved > 1 + self._config.clip_high)).sum()
            )
            gap += float(logps.detach().abs().sum())
        return Update(loss, self._masters.step(parameters, self._config.max_norm), clipped, gap)

    def _token_losses(self, module: Any, each: Weighted) -> tuple[Tensor, Tensor, Tensor]:
        """Return loss, ratio p/q and log p - log q of each sampled token of a row, ``[T]``."""
        device = next(module.parameters()).device
        ids = torch.from_numpy(each.row.input_ids).long().to(device)
        sampled = torch.from_numpy(each.row.loss_mask[1:]).bool().to(device)
        logits = module(input_ids=ids[None, :-1], use_cache=False).logits[0][sampled].float()
        logps = torch.log_softmax(logits, dim=-1).gather(-1, ids[1:][sampled][:, None])[:, 0]
        before = torch.from_numpy(each.row.logprobs[1:]).to(device)[sampled]
        ratios = (logps - before).exp()
        bounded = ratios.clamp(1 - self._config.clip_low, 1 + self._config.clip_high)
        losses = -torch.minimum(ratios * each.advantage, bounded * each.advantage)
        return losses, ratios, logps - before


def scored(group: Group) -> list[float]:
    """Return the rewards of the rollouts that could be scored, failures included."""
    return [t.reward for t in group.trajectories if t.outcome is not Outcome.NOT_SCORED]


def weighted(group: Group) -> list[Weighted]:
    """Return the rows of a group's scored rollouts with their advantages.

    A group whose rewards are all equal has nothing to learn from.
    """
    rewards = scored(group)
    if not rewards or max(rewards) == min(rewards):
        return []
    mean, spread = fmean(rewards), pstdev(rewards)
    return [
        Weighted(row, (trajectory.reward - mean) / (spread + EPSILON))
        for trajectory, rows in zip(group.trajectories, group.rows, strict=True)
        if trajectory.outcome is not Outcome.NOT_SCORED
        for row in rows
    ]


def _metrics(groups: Sequence[Group], made: Sequence[Update], tokens: int) -> dict[str, float]:
    silent = sum(not weighted(group) for group in groups)
    metrics = {"equal_groups": silent / len(groups)}
    if made:
        metrics["ratio_gap"] = made[0].gap / tokens
        metrics["clipped_share"] = made[-1].clipped / tokens
    return metrics


def _lender(engine: RolloutEngine) -> LendsModule:
    if not isinstance(engine, LendsModule):
        raise InputError(
            f"clipped-pg trains the module that the engine serves; {type(engine).__name__} lends "
            "none: use the rollout engine transformers"
        )
    return engine
