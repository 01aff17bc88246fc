"""The method: what is accepted, how it is split, what waits, what a step reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from attrs import evolve
from rsft_kit import Context, LendingEngine, group, rollout, row, tiny_llama

from whale_core.abilities import PlansSteps, StepPlan
from whale_core.config.later import drop_unused
from whale_core.config.structure import unstructure
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.records import Outcome
from whale_core.roles import Group, ModelUpdate, WeightStep
from whale_rsft.accepted import is_accepted
from whale_rsft.config import Config, LoRA
from whale_rsft.rsft import RSFT, near_equal
from whale_rsft.trainers import Updates

CONFIG = Config(prompts=2, group_size=3, min_accepted=1, micro_tokens=40, lr=1e-2)


async def run(config: Config, context: Context, steps: int) -> list[WeightStep]:
    return await continued(RSFT(config, Setup(seed=0)), context, steps)


async def continued(rsft: RSFT, context: Context, steps: int) -> list[WeightStep]:
    iterator = rsft.steps(cast(Any, context))
    result = [await anext(iterator) for _ in range(steps)]
    await iterator.aclose()
    return result


def phase(engine: LendingEngine, *batches: Sequence[Group], next_step: int = 1) -> Context:
    return Context(engine, [list(groups) for groups in batches], next_step)


def test_it_is_a_model_update() -> None:
    rsft: ModelUpdate = RSFT(CONFIG, Setup(seed=0))
    assert rsft.steps_per_epoch(2) == 1
    assert rsft.steps_per_epoch(5) == 2


def test_an_epoch_needs_one_batch() -> None:
    with pytest.raises(InputError, match=r"prompts=2 .* 1 prompts"):
        RSFT(CONFIG, Setup(seed=0)).steps_per_epoch(1)


@pytest.mark.parametrize(
    ("reward", "outcome", "accepted"),
    [
        (1.0, Outcome.PASS, True),
        (0.51, Outcome.PASS, True),
        (0.5, Outcome.PASS, False),
        (0.0, Outcome.FAIL, False),
        (None, Outcome.FAIL, False),
        (1.0, Outcome.NOT_SCORED, False),
        (None, Outcome.NOT_SCORED, False),
    ],
)
def test_acceptance_is_strict_and_scored(
    reward: float | None, outcome: Outcome, accepted: bool
) -> None:
    assert is_accepted(rollout(reward, outcome=outcome), 0.5) is accepted


def test_a_threshold_of_zero_does_not_accept_what_failed_before_verification() -> None:
    assert not is_accepted(rollout(None), 0.0)


@pytest.mark.parametrize(
    ("n", "sizes"),
    [(0, []), (1, [1]), (64, [64]), (65, [32, 33]), (128, [64, 64]), (130, [43, 43, 44])],
)
def test_minibatches_are_near_equal_and_in_order(n: int, sizes: list[int]) -> None:
    trajectories = [(row([1, 2], [0, 1], i), row([3, 4], [0, 1], i)) for i in range(n)]
    batches = near_equal(trajectories, 64)
    assert [len(batch) for batch in batches] == sizes
    assert [rows for batch in batches for rows in batch] == trajectories


@pytest.mark.parametrize("minibatch", [1, 2, 3])
async def test_one_update_per_minibatch(engine: LendingEngine, minibatch: int) -> None:
    config = evolve(CONFIG, minibatch=minibatch)
    [step] = await run(config, phase(engine, [group([1, 1, 0]), group([0, 1, 0], 1)]), 1)
    assert step.updates == -(-3 // minibatch)
    assert step.accepted == 3
    assert step.trained_tokens == 2 + 3 + 3
    assert engine.refreshed == 1


async def test_a_step_reports_its_rollouts(engine: LendingEngine) -> None:
    rewards: list[float | None] = [1.0, 0.25, None]
    groups = [group(rewards), group([0.0, 0.0, 0.0], 1)]
    lost = evolve(groups[1].trajectories[2], outcome=Outcome.NOT_SCORED)
    groups[1] = evolve(groups[1], trajectories=(*groups[1].trajectories[:2], lost))
    context = phase(engine, groups, next_step=7)
    [step] = await run(CONFIG, context, 1)
    assert context.asked == [(2, 3, 7)]
    assert (step.step, step.prompts, step.rollouts, step.scored, step.accepted) == (7, 2, 6, 5, 1)
    assert step.reward == pytest.approx(1.25 / 5)
    assert step.metrics["starved"] == 0.0
    assert 0.0 < step.rollout_seconds + 1e-9 <= step.seconds + 1e-9


async def test_steps_are_numbered_on(engine: LendingEngine) -> None:
    steps = await run(CONFIG, phase(engine, [group([1, 0])], [group([1, 0])], next_step=4), 2)
    assert [step.step for step in steps] == [4, 5]


async def test_nothing_accepted_is_a_starved_step(engine: LendingEngine) -> None:
    before = engine.values()
    [step] = await run(CONFIG, phase(engine, [group([0, 0.5, None])]), 1)
    assert (step.updates, step.trained_tokens, step.loss, step.grad_norm) == (0, 0, None, None)
    assert step.changed_share is None
    assert step.metrics["starved"] == 1.0
    assert all(torch.equal(before[name], value) for name, value in engine.values().items())


async def test_few_accepted_wait_and_train_together(engine: LendingEngine) -> None:
    config = evolve(CONFIG, min_accepted=3)
    parts = [[group([1, 0, 0], 0)], [group([0, 1, 0], 1)], [group([0, 0, 1], 2)]]
    steps = await run(config, phase(engine, *parts), 3)
    assert [step.updates for step in steps] == [0, 0, 1]
    assert [step.accepted for step in steps] == [1, 1, 1]
    assert [step.metrics["waiting"] for step in steps] == [1.0, 2.0, 0.0]
    assert steps[2].trained_tokens == 2 + 3 + 4
    assert [step.trained_on for step in steps[:2]] == [(), ()]  # accepted is not yet trained on
    told = [(each.step, each.draw, each.tokens) for each in steps[2].trained_on or ()]
    assert told == [(1, 0, 2), (2, 1, 3), (3, 2, 4)]

    together = LendingEngine(tiny_llama())
    await run(config, phase(together, [part[0] for part in parts]), 1)
    assert all(torch.equal(together.values()[n], value) for n, value in engine.values().items())


async def test_what_waits_comes_first(engine: LendingEngine) -> None:
    """With minibatches of one the order of updates shows in the weights."""
    config = evolve(CONFIG, min_accepted=2, minibatch=1)
    early, late = group([1], 0), group([1], 1)
    await run(config, phase(engine, [early], [late]), 2)
    for order, same in (([early, late], True), ([late, early], False)):
        other = LendingEngine(tiny_llama())
        await run(config, phase(other, order), 1)
        equal = [torch.equal(other.values()[n], value) for n, value in engine.values().items()]
        assert all(equal) is same


async def test_what_waits_is_dropped_at_the_end_of_the_phase(engine: LendingEngine) -> None:
    rsft = RSFT(evolve(CONFIG, min_accepted=2), Setup(seed=0))
    await continued(rsft, phase(engine, [group([1, 0])]), 1)
    [step] = await continued(rsft, phase(engine, [group([1, 0], 1)], next_step=2), 1)
    assert step.updates == 0
    assert step.metrics["waiting"] == 1.0


async def test_loss_is_the_token_mean_over_the_minibatch(engine: LendingEngine) -> None:
    groups = [group([1, 0, 1]), group([1, 1, 0], 1)]
    nll, tokens = 0.0, 0
    for g, accepted in zip(groups, ([0, 2], [0, 1]), strict=True):
        for i in accepted:
            ids = torch.tensor(g.rows[i][0].input_ids, dtype=torch.long)
            logp = torch.log_softmax(engine.module(input_ids=ids[None]).logits[0], -1)
            for t in np.flatnonzero(g.rows[i][0].loss_mask):
                nll, tokens = nll - float(logp[t - 1, ids[t]]), tokens + 1
    [step] = await run(CONFIG, phase(engine, groups), 1)
    assert step.trained_tokens == tokens
    assert step.loss == pytest.approx(nll / tokens, rel=1e-5)
    # the rows claim a sampling log-probability of 0, so the gap is the loss itself
    assert step.metrics["logprob_gap"] == pytest.approx(nll / tokens, rel=1e-5)


async def test_training_raises_the_likelihood(engine: LendingEngine) -> None:
    batches = [[group([1, 0, 1]), group([1, 1, 0], 1)]] * 8
    steps = await run(CONFIG, phase(engine, *batches), 8)
    losses = [step.loss for step in steps if step.loss is not None]
    assert losses[-1] < losses[0] / 2


async def test_what_cannot_be_trained_is_refused_before_rollouts(engine: LendingEngine) -> None:
    context = phase(engine, [group([1])])
    with pytest.raises(InputError, match=r"device=mps, but the engine's module, .* is on cpu"):
        await run(evolve(CONFIG, device="mps"), context, 1)
    assert context.asked == []


async def test_rows_are_numbered_by_trajectory_within_a_minibatch(engine: LendingEngine) -> None:
    class Recorder:
        seen: Sequence[Sequence[Any]] = ()

        async def prepare(self, engine: Any) -> None:
            """Nothing to prepare."""

        async def train(self, minibatches: Any, engine: Any) -> Updates:
            self.seen = minibatches
            return Updates()

    rsft = RSFT(evolve(CONFIG, minibatch=2), Setup(seed=0))
    rsft._trainer = recorder = cast(Any, Recorder())
    forked = evolve(group([1, 1, 1], 1), rows=tuple(r * 2 for r in group([1, 1, 1], 1).rows))
    await continued(rsft, phase(engine, [group([1, 0, 0]), forked]), 1)
    numbers = [[row.trajectory for row in rows] for rows in recorder.seen]
    assert numbers == [[0, 1, 1], [0, 0, 1, 1]]


@pytest.mark.parametrize(
    "wrong", [{"prompts": 0}, {"lr": -1.0}, {"accept_above": 1.0}, {"clip": 0}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Config(**wrong)


def test_settings_that_came_later_are_hashed_only_where_they_are_used() -> None:
    """Runs planned before there were losses, LoRA and the rest keep their settings hash."""
    first = {"prompts", "group_size", "accept_above", "min_accepted", "minibatch", "micro_tokens"}
    first |= {"lr", "beta1", "beta2", "weight_decay", "clip"}
    config = Config()
    tree = unstructure(config)
    drop_unused(tree, config)
    assert tree.keys() == first
    config = evolve(config, lora=LoRA(rank=8))
    tree = unstructure(config)
    drop_unused(tree, config)
    assert tree["lora"] == {"rank": 8, "alpha": 16.0, "targets": ["all-linear"]}


def test_a_step_is_known_beforehand() -> None:
    rsft = RSFT(evolve(CONFIG, prompts=3, group_size=4, minibatch=5), Setup(seed=0))
    assert isinstance(rsft, PlansSteps)
    assert rsft.planned_step() == StepPlan(prompts=3, group_size=4, most_updates=3)
    assert [len(batch) for batch in near_equal([()] * 12, 5)] == [4, 4, 4]  # all accepted
