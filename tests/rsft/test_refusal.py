"""Updates that must not be made: no finite numbers, a failing kernel, rollouts without a score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest
import torch
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from rsft_kit import VOCABULARY, Context, LendingEngine, group, rollout, row, tiny_llama

from whale_core.errors import TooMuchNotScored, TrainerError
from whale_core.plugins import Setup
from whale_core.records import Outcome, Row
from whale_core.roles import Group
from whale_rsft.config import Config
from whale_rsft.rsft import MOST_REFUSED, RSFT
from whale_rsft.torch_trainer import TorchTrainer
from whale_rsft.trainers import Updates

CONFIG = Config(micro_tokens=30, lr=1e-3)
BAD = VOCABULARY - 1  # the token that breaks things
DTYPES = [torch.float32, torch.bfloat16]


def batch(seed: int, bad: bool = False) -> list[Row]:
    draw = np.random.default_rng(seed)
    rows = []
    for i in range(3):
        ids = draw.integers(0, BAD, 12)
        if bad and i == 1:
            ids[9] = BAD
        rows.append(row(ids, [0] * 8 + [1] * 4))
    return rows


async def train(trainer: TorchTrainer, engine: LendingEngine, *minibatches: list[Row]) -> Updates:
    return await trainer.train(minibatches, cast(Any, engine))


def state_of(trainer: TorchTrainer, engine: LendingEngine) -> dict[str, torch.Tensor]:
    """A copy of everything that a step may change: served values, masters, moments, counts."""
    masters = trainer._state
    assert masters is not None
    state = {f"served {name}": value for name, value in engine.values().items()}
    for name, master in masters.masters.items():
        state[f"master {name}"] = master.detach().clone()
        for kind, value in masters._optimizer.state[master].items():
            state[f"{kind} {name}"] = value.clone()
    return state


def equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[n], right[n]) for n in left)


Hook = Callable[[Any, Any, torch.Tensor], torch.Tensor]


def embeds(value: float) -> Hook:
    """The embedding of ``BAD`` is ``value``: the rows that hold it, and no others, are broken."""
    return lambda module, ids, output: torch.where(
        (ids[0] == BAD)[..., None], torch.full_like(output, value), output
    )


def forbids(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
    """``BAD`` has probability 0: the loss of predicting it is infinite, the gradient finite."""
    masked = output.clone()
    masked[..., BAD] = -torch.inf
    return masked


@contextmanager
def hooked(engine: LendingEngine, place: str, hook: Hook) -> Iterator[None]:
    handle = engine.module.get_submodule(place).register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


BREAKS = {
    "nan": ("model.embed_tokens", embeds(math.nan)),
    "inf": ("model.embed_tokens", embeds(math.inf)),
    "inf loss": ("lm_head", forbids),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BREAKS)
async def test_a_refused_update_leaves_no_trace(name: str, dtype: torch.dtype) -> None:
    engine, trainer = LendingEngine(tiny_llama(dtype)), TorchTrainer(CONFIG)
    await train(trainer, engine, batch(0))
    before = state_of(trainer, engine)
    with hooked(engine, *BREAKS[name]):
        refused = await train(trainer, engine, batch(1, bad=True))
        assert [update.made for update in refused.updates] == [False]
        assert refused.changed_share == 0.0
        if name == "inf loss":
            assert math.isfinite(refused.updates[0].grad_norm)
        assert equal(before, state_of(trainer, engine))
        # among others it is refused alone
        among = await train(trainer, engine, batch(2), batch(1, bad=True), batch(3))
        assert [update.made for update in among.updates] == [True, False, True]

    other, reference = LendingEngine(tiny_llama(dtype)), TorchTrainer(CONFIG)
    await train(reference, other, batch(0))
    with hooked(other, *BREAKS[name]):
        await train(reference, other, batch(2), batch(3))
    assert equal(state_of(trainer, engine), state_of(reference, other))


def fails_forward(error: Exception, at: int) -> Hook:
    seen = 0

    def hook(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        seen += 1
        if seen == at:
            raise error
        return output

    return hook


def fails_backward(error: Exception, at: int) -> Hook:
    seen = 0

    def fail(gradient: torch.Tensor) -> None:
        nonlocal seen
        seen += 1
        if seen == at:
            raise error

    def hook(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        output.register_hook(fail)
        return output

    return hook


@pytest.mark.parametrize("error", [RuntimeError("CUDA out\n of memory"), MemoryError("no room")])
@pytest.mark.parametrize("fails", [fails_forward, fails_backward])
@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("first", [True, False])
async def test_an_update_that_fails_is_not_half_made(
    error: Exception, fails: Callable[..., Hook], at: int, first: bool
) -> None:
    """``at``: the first or second micro-batch of the update; ``first``: the trainer's first one."""
    engine, trainer = LendingEngine(tiny_llama(torch.bfloat16)), TorchTrainer(CONFIG)
    if not first:
        await train(trainer, engine, batch(0))
        before = state_of(trainer, engine)
    served = engine.values()
    with (
        hooked(engine, "model.layers.0", fails(error, at)),
        pytest.raises(TrainerError, match=rf"{type(error).__name__}: .*micro_tokens") as caught,
    ):
        await train(trainer, engine, batch(1))
    assert caught.value.exit_code == 6
    assert "\n" not in str(caught.value)
    assert equal(served, engine.values())
    assert all(p.grad is None and not p.requires_grad for p in engine.module.parameters())
    assert trainer._state is not None
    assert all(master.grad is None for master in trainer._state.masters.values())
    if not first:
        assert equal(before, state_of(trainer, engine))
    await train(trainer, engine, batch(1))

    other, reference = LendingEngine(tiny_llama(torch.bfloat16)), TorchTrainer(CONFIG)
    for seed in (1,) if first else (0, 1):
        await train(reference, other, batch(seed))
    assert equal(state_of(trainer, engine), state_of(reference, other))


async def test_a_failure_after_an_update_leaves_that_update_whole() -> None:
    engine, trainer = LendingEngine(tiny_llama(torch.bfloat16)), TorchTrainer(CONFIG)
    packs = 2  # micro-batches of an update
    with (
        hooked(engine, "model.layers.0", fails_backward(RuntimeError("gone"), packs + 1)),
        pytest.raises(TrainerError, match="gone"),
    ):
        await train(trainer, engine, batch(0), batch(1))
    assert engine.refreshed == 1, "the engine must learn that its weights have changed"
    other, reference = LendingEngine(tiny_llama(torch.bfloat16)), TorchTrainer(CONFIG)
    await train(reference, other, batch(0))
    assert equal(state_of(trainer, engine), state_of(reference, other))


# --- the method -----------------------------------------------------------------------------------

METHOD = Config(prompts=2, group_size=3, min_accepted=1, micro_tokens=40, lr=1e-2)
outcomes = st.sampled_from(
    [
        (1.0, Outcome.PASS),
        (0.2, Outcome.FAIL),
        (None, Outcome.FAIL),
        (None, Outcome.NOT_SCORED),
        (1.0, Outcome.NOT_SCORED),  # no verifier does that; it must not matter
    ]
)


class Recorder(TorchTrainer):
    """Takes note of what it is to train on."""

    def __init__(self) -> None:
        super().__init__(METHOD)
        self.seen: list[Row] = []

    async def prepare(self, engine: Any) -> None:
        """Nothing to prepare."""

    async def train(self, minibatches: Any, engine: Any) -> Updates:
        """Take the rows."""
        self.seen += [r for rows in minibatches for r in rows]
        return Updates()


@given(
    steps=st.lists(st.lists(outcomes, min_size=6, max_size=6), min_size=1, max_size=4),
    min_accepted=st.integers(1, 4),
    minibatch=st.integers(1, 3),
)
def test_nothing_but_accepted_rollouts_ever_enters_training(
    steps: list[list[tuple[float | None, Outcome]]], min_accepted: int, minibatch: int
) -> None:
    batches, accepted, scored = [], [], []
    for number, kinds in enumerate(steps):
        groups = [group([0.0] * 3, 2 * number), group([0.0] * 3, 2 * number + 1)]
        for g, some in ((0, kinds[:3]), (1, kinds[3:])):
            made = tuple(rollout(r, i, outcome) for i, (r, outcome) in enumerate(some))
            groups[g] = evolve(groups[g], trajectories=made)
            accepted += [
                id(r.input_ids)
                for t, rows in zip(made, groups[g].rows, strict=True)
                for r in rows
                if t.outcome is Outcome.PASS
            ]
        batches.append(groups)
        scored.append(
            [reward or 0.0 for reward, outcome in kinds if outcome is not Outcome.NOT_SCORED]
        )
    rsft = RSFT(evolve(METHOD, min_accepted=min_accepted, minibatch=minibatch), Setup(seed=0))
    rsft._trainer = recorder = Recorder()
    lender = cast(Any, Recorderless())

    async def play() -> None:
        iterator = rsft.steps(cast(Any, Context(lender, batches)))
        for rewards in scored:
            if not rewards:
                with pytest.raises(TooMuchNotScored):
                    await anext(iterator)
                return
            step = await anext(iterator)
            assert step.scored == len(rewards)
            assert step.reward == pytest.approx(sum(rewards) / len(rewards))
        await iterator.aclose()

    run_to_its_end(play())
    seen = [id(r.input_ids) for r in recorder.seen]
    assert len(seen) == len(set(seen))
    assert set(seen) <= set(accepted)
    if all(scored) and min_accepted == 1:
        assert seen == accepted


class Recorderless:
    """An engine that could lend its module, and never has to."""

    async def borrow(self, work: Any) -> Any:
        """Not reached."""
        raise AssertionError

    async def refresh(self) -> str:
        """Not reached."""
        raise AssertionError


def run_to_its_end(coroutine: Any) -> None:
    """Run a coroutine that waits for nothing (cheaper than an event loop for each example)."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


async def test_a_step_without_a_score_is_no_zero(engine: LendingEngine) -> None:
    lost = [evolve(t, reason="engine: gone") for t in group([None, None]).trajectories]
    groups: list[Group] = [
        evolve(
            group([None, None]),
            trajectories=tuple(evolve(t, outcome=Outcome.NOT_SCORED) for t in lost),
        )
    ]
    iterator = RSFT(METHOD, Setup(seed=0)).steps(cast(Any, Context(engine, [groups], next_step=5)))
    with pytest.raises(TooMuchNotScored, match=r"weight step 5: none of its 2 .*engine: gone"):
        await anext(iterator)


async def test_refused_steps_are_recorded_and_several_in_a_row_stop_the_phase(
    engine: LendingEngine,
) -> None:
    broken = MOST_REFUSED + 1
    batches = [[group([1, 0, 1], seed)] for seed in range(broken)]
    iterator = RSFT(METHOD, Setup(seed=0)).steps(cast(Any, Context(engine, batches)))
    before = engine.values()

    def spoil(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        return output * math.nan

    with hooked(engine, "lm_head", spoil):
        for number in range(1, MOST_REFUSED + 1):
            step = await anext(iterator)
            assert (step.step, step.updates, step.loss, step.grad_norm) == (number, 0, None, None)
            assert (step.metrics["refused"], step.accepted) == (1.0, 2)
        with pytest.raises(TrainerError, match=f"the last {MOST_REFUSED} weight steps"):
            await anext(iterator)
    assert equal(before, engine.values())


async def test_a_step_that_is_made_starts_the_count_anew(engine: LendingEngine) -> None:
    batches = [[group([1, 0, 1], seed)] for seed in range(2 * MOST_REFUSED)]
    iterator = RSFT(METHOD, Setup(seed=0)).steps(cast(Any, Context(engine, batches)))

    def spoil(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        return output * math.nan

    for _ in range(2):
        with hooked(engine, "lm_head", spoil):
            for _ in range(MOST_REFUSED - 1):
                assert (await anext(iterator)).metrics["refused"] == 1.0
        assert (await anext(iterator)).updates == 1
