"""Contract of a ModelUpdate: honest reports, weights that move, and an exact continuation."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import define, evolve, field

from whale_core.errors import WhaleError
from whale_core.plugins import Setup
from whale_core.records import Example, Outcome
from whale_core.roles import Group, Harness, ModelUpdate, RolloutEngine, WeightContext, WeightStep
from whale_core.run.services import close_each
from whale_core.testing.contracts.requirement import Factory, build, doing, require
from whale_core.testing.workbench import (
    CoinVerifier,
    shuffling_engine,
    toy_domain,
    workbench,
)

FIRST_PHASE, SECOND_PHASE = 3, 2  # weight steps


def check_model_update(factory: Factory, config: Any, engine: Callable[[], RolloutEngine]) -> None:
    """Check a weight update on real rollouts of the toy domain; about half of them pass.

    ``engine`` returns a new engine with the same small initial weights each time, one that the
    update can train; ``config`` should ask for a few prompts and rollouts only. Each report says
    what was rolled out; the weights move and the engine knows; an update with the state of a
    checkpoint goes on exactly as the one that wrote it, within a phase and after it.
    """
    asyncio.run(_check(factory, config, engine))


async def _check(factory: Factory, config: Any, engine: Callable[[], RolloutEngine]) -> None:
    first, second = engine(), engine()
    try:
        await _check_foreign_engine(factory, config)
        with TemporaryDirectory(prefix="whale-contract-") as name:
            await _check_training(factory, config, first, second, Path(name))
    finally:
        await first.close()
        await second.close()


async def _check_training(
    factory: Factory, config: Any, first: RolloutEngine, second: RolloutEngine, folder: Path
) -> None:
    update: ModelUpdate = build(factory, config, Setup(seed=0))
    initial = await first.weights_id()
    with workbench(toy_domain(), CoinVerifier(loses=True), first) as bench:
        inner = bench.weight_context()
        context = _Recorder(inner, first, inner.harness)
        trained = await _phase(update, context, FIRST_PHASE, folder, checkpoints=True)
        await _save(update, first, folder / "end")
        _check_epoch(update, [step.prompts for step, _ in trained.steps])
        final = trained.steps[-1][1]
        require(
            any(step.updates for step, _ in trained.steps),
            f"no update in {FIRST_PHASE} steps, although about half of all rollouts passed",
        )
        require(
            await second.load(folder / "end") == final,
            "the saved weights are not those that weights_id() names: call engine.refresh() after "
            "a change in place",
        )
        require(final != initial, "there were updates, but the weights are what they were")
        context.next_step = FIRST_PHASE + 1
        after = await _phase(update, context, SECOND_PHASE, folder)
        for at in trained.checkpoints[:1]:
            await _continue(factory, config, second, context, folder, at, trained.steps[at:])
        await _continue(factory, config, second, context, folder, FIRST_PHASE, after.steps, "end")
    await close_each(update)


@define
class _Recorder:
    """A phase's context that remembers what it answered, and answers it again in ``replay``."""

    inner: WeightContext
    engine: RolloutEngine
    harness: Harness
    seed: int = 0
    replay: bool = False
    taken: int = 0  # prompts since the last report
    groups: list[Group] = field(factory=list)  # since the last report
    rolled_out: dict[int, list[list[Group]]] = field(factory=dict)
    prompts: dict[int, list[list[Example]]] = field(factory=dict)
    next_step: int = 1
    reported: int = 0  # the last step
    cursor: dict[str, int] = field(factory=dict)

    def next_prompts(self, count: int) -> list[Example]:
        step = self.reported + 1
        if self.replay:
            return self.prompts[step][self._turn(f"prompts {step}")]
        chosen = self.inner.next_prompts(count)
        self.taken += len(chosen)
        self.prompts.setdefault(step, []).append(chosen)
        return chosen

    def best_harnesses(self, count: int) -> list[Harness]:
        return self.inner.best_harnesses(count)

    async def rollout(
        self,
        prompts: Sequence[Example],
        group_size: int,
        step: int,
        harnesses: Sequence[Harness] | None = None,
    ) -> list[Group]:
        require(step == self.reported + 1, f"rollout() for step {step} in {self.reported + 1}")
        if self.replay:
            return self.rolled_out[step][self._turn(f"rollouts {step}")]
        groups = await self.inner.rollout(prompts, group_size, step, harnesses)
        self.groups += groups
        self.rolled_out.setdefault(step, []).append(groups)
        return groups

    def _turn(self, name: str) -> int:
        self.cursor[name] = self.cursor.get(name, -1) + 1
        return self.cursor[name]


@define
class _Trained:
    """The reports of a phase with the weights ids after them, and where checkpoints were made."""

    steps: list[tuple[WeightStep, str]] = field(factory=list)
    checkpoints: list[int] = field(factory=list)


async def _phase(
    update: ModelUpdate, context: _Recorder, count: int, folder: Path, checkpoints: bool = False
) -> _Trained:
    """Run ``count`` steps of a phase and close it, as the alternation loop does."""
    trained = _Trained()
    engine = context.engine
    context.reported = context.next_step - 1
    served = await engine.weights_id()
    steps = update.steps(context)
    updates = 0
    with doing("steps(context)"):
        async for step in steps:
            before, served = served, await engine.weights_id()
            number = context.reported + 1
            _check_report(step, number, context, before == served)
            trained.steps.append((step, served))
            context.reported, context.taken, context.groups = number, 0, []
            updates += step.updates
            if len(trained.steps) == count:
                break
            if checkpoints and updates and not step.unsettled:
                await _save(update, engine, folder / f"step-{number}")
                trained.checkpoints.append(number)
        await steps.aclose()
    require(
        len(trained.steps) == count, f"steps() ended by itself after {len(trained.steps)} steps"
    )
    return trained


def _check_report(step: WeightStep, number: int, context: _Recorder, unchanged: bool) -> None:
    at = f"step {number}"
    require(isinstance(step, WeightStep), f"{at}: yielded a {type(step).__name__}")
    require(step.step == number, f"{at}: the report says step={step.step}")
    if not context.replay:
        made = [t for group in context.groups for t in group.trajectories]
        rewards = [t.reward for t in made if t.outcome is not Outcome.NOT_SCORED]
        facts = {
            "prompts": (step.prompts, context.taken),
            "rollouts": (step.rollouts, len(made)),
            "scored": (step.scored, len(rewards)),
        }
        for name, (said, true) in facts.items():
            require(said == true, f"{at}: {name} is {said}, it was {true}")
        mean = sum(rewards) / len(rewards)
        require(
            math.isclose(step.reward, mean, abs_tol=1e-9),
            f"{at}: reward is {step.reward:.4f}; the mean over scored rollouts is {mean:.4f}",
        )
    require(0 <= step.accepted <= step.scored, f"{at}: accepted={step.accepted} of {step.scored}")
    require(step.updates >= 0, f"{at}: updates={step.updates}")
    require(
        bool(step.updates) or unchanged, f"{at}: the weights changed, but updates is {step.updates}"
    )
    require(
        not step.updates or step.trained_tokens > 0,
        f"{at}: {step.updates} updates on {step.trained_tokens} trained tokens",
    )
    told = step.trained_on
    require(
        told is None or sum(each.tokens for each in told) == step.trained_tokens,
        f"{at}: trained_on does not add up to {step.trained_tokens} trained tokens",
    )
    numbers = {"loss": step.loss, "grad_norm": step.grad_norm, **step.metrics}
    for name, value in numbers.items():
        require(value is None or math.isfinite(value), f"{at}: {name} is {value}")


def _check_epoch(update: ModelUpdate, prompts: Sequence[int]) -> None:
    """An epoch is as many whole prompt batches as there are."""
    require(len(set(prompts)) == 1, f"the steps take different numbers of prompts: {list(prompts)}")
    for count in (prompts[0], 10 * prompts[0] + prompts[0] // 2):
        with doing(f"steps_per_epoch({count})"):
            steps = update.steps_per_epoch(count)
        wanted = count // prompts[0]
        require(
            steps == wanted,
            f"steps_per_epoch({count}) is {steps}; with {prompts[0]} prompts a step it is {wanted}",
        )
    if prompts[0] > 1:
        try:
            few = update.steps_per_epoch(prompts[0] - 1)
        except WhaleError:
            return
        except Exception as error:
            raise AssertionError(
                f"steps_per_epoch of too few prompts raised {type(error).__name__}, not InputError"
            ) from error
        require(few >= 1, f"steps_per_epoch of too few prompts is {few}: raise InputError")


async def _save(update: ModelUpdate, engine: RolloutEngine, folder: Path) -> None:
    state = folder.with_name(f"{folder.name}-optimizer")
    state.mkdir()
    await engine.save(folder)
    with doing("save(folder)"):
        await update.save(state)


async def _continue(
    factory: Factory,
    config: Any,
    engine: RolloutEngine,
    recorded: _Recorder,
    folder: Path,
    at: int,
    expected: Sequence[tuple[WeightStep, str]],
    name: str = "",
) -> None:
    """Load a checkpoint into a new update, and go on over the record: the same must follow."""
    weights = folder / (name or f"step-{at}")
    what = f"continued from a checkpoint after step {at}"
    await engine.load(weights)
    update: ModelUpdate = build(factory, config, Setup(seed=0))
    with doing("load(folder, engine)"):
        await update.load(weights.with_name(f"{weights.name}-optimizer"), engine)
    inner: Any = recorded.inner
    inner = evolve(inner, engine=engine)
    context = _Recorder(
        inner,
        engine,
        inner.harness,
        replay=True,
        rolled_out=recorded.rolled_out,
        prompts=recorded.prompts,
        next_step=at + 1,
    )
    again = await _phase(update, context, len(expected), folder)
    await close_each(update)
    for (step, weights_id), (other, other_id) in zip(expected, again.steps, strict=True):
        require(
            weights_id == other_id,
            f"{what}, step {step.step} leads to other weights: does save() keep all of the state?",
        )
        require(
            evolve(step, seconds=0.0, rollout_seconds=0.0)
            == evolve(other, seconds=0.0, rollout_seconds=0.0),
            f"{what}, step {step.step} reports other numbers: {step} became {other}",
        )


async def _check_foreign_engine(factory: Factory, config: Any) -> None:
    """An engine that the update cannot train is refused in words, or trained."""
    update: ModelUpdate = build(factory, config, Setup(seed=0))
    with workbench(toy_domain(), CoinVerifier(), shuffling_engine()) as bench:
        steps = update.steps(bench.weight_context())
        try:
            await anext(steps)
        except WhaleError:
            pass
        except Exception as error:
            raise AssertionError(
                f"an engine that lends no module raised {type(error).__name__}: {error}; raise "
                "InputError and say which engine is needed"
            ) from error
        finally:
            await steps.aclose()
            await close_each(update)
