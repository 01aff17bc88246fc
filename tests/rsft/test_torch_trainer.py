"""Updates: clip, learning rate, masters and their rounding, refusal, state on disk."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from attrs import evolve
from rsft_kit import VOCABULARY, LendingEngine, row, tiny_llama

from whale_core.errors import RunFolderError
from whale_core.records import Row
from whale_rsft.config import Config
from whale_rsft.masters import STATE_FILE
from whale_rsft.torch_trainer import TorchTrainer
from whale_rsft.trainers import Update, Updates

CONFIG = Config(micro_tokens=30, lr=1e-3)
DTYPES = [torch.float32, torch.bfloat16]


def batch(seed: int) -> list[Row]:
    draw = np.random.default_rng(seed)
    prompt = draw.integers(0, VOCABULARY, 8).tolist()
    return [row([*prompt, *draw.integers(0, VOCABULARY, 4)], [0] * 8 + [1] * 4) for _ in range(3)]


async def train(trainer: TorchTrainer, engine: LendingEngine, *minibatches: list[Row]) -> Updates:
    return await trainer.train(minibatches, cast(Any, engine))


async def one(trainer: TorchTrainer, engine: LendingEngine, rows: list[Row]) -> Update:
    [update] = (await train(trainer, engine, rows)).updates
    return update


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(left[name], right[name]) for name in left)


async def test_three_updates_equal_plain_adamw_with_clipping(engine: LendingEngine) -> None:
    """The same three updates by the textbook: autograd, clip_grad_norm_, torch's AdamW."""
    config = evolve(CONFIG, clip=0.5, weight_decay=0.1)
    trainer = TorchTrainer(config)
    norms = [(await one(trainer, engine, batch(i))).grad_norm for i in range(3)]

    model = tiny_llama().requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    for i, norm in enumerate(norms):
        ids = torch.tensor(np.stack([r.input_ids for r in batch(i)]), dtype=torch.long)
        logp = torch.log_softmax(model(input_ids=ids).logits[:, 7:-1], -1)
        optimizer.zero_grad()
        loss = -logp.gather(-1, ids[:, 8:, None]).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        plain = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        assert norm == pytest.approx(float(plain), rel=1e-4)
        assert norm > 0.5, "the case must clip"
        optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(engine.values()[name], parameter.detach(), rtol=1e-4, atol=2e-5)


async def test_the_learning_rate_is_constant(engine: LendingEngine) -> None:
    """Without momentum AdamW moves a weight by lr, every time: no warm-up, no decay."""
    trainer = TorchTrainer(evolve(CONFIG, beta1=0.0, beta2=0.0, lr=1e-4))
    moves = []
    for _ in range(4):
        before = engine.values()
        await one(trainer, engine, batch(0))
        after = engine.values()
        moves.append(float((after["model.norm.weight"] - before["model.norm.weight"]).abs().max()))
    assert moves == pytest.approx([1e-4] * 4, rel=1e-2)


async def test_served_values_are_rounded_masters(engine16: LendingEngine, tmp_path: Path) -> None:
    trainer = TorchTrainer(CONFIG)
    before = engine16.values()
    done = await train(trainer, engine16, batch(0), batch(1))
    after = engine16.values()
    changed = sum(int((before[n] != after[n]).sum()) for n in after)
    assert done.changed_share == changed / sum(value.numel() for value in after.values())
    assert 0.0 < done.changed_share < 1.0
    assert trainer._state is not None
    for name, value in after.items():
        assert value.dtype == torch.bfloat16
        assert torch.equal(value, trainer._state.masters[name].bfloat16())


async def test_tiny_updates_round_away_but_add_up_in_the_masters(engine16: LendingEngine) -> None:
    trainer = TorchTrainer(evolve(CONFIG, lr=1e-9))
    before = engine16.values()
    done = await train(trainer, engine16, batch(0))
    assert done.updates[0].made
    assert done.changed_share == 0.0
    assert same(before, engine16.values())
    assert trainer._state is not None
    assert any((trainer._state.masters[n] != v.float()).any() for n, v in before.items())


async def test_float32_changes_nearly_every_served_value(engine: LendingEngine) -> None:
    done = await train(TorchTrainer(CONFIG), engine, batch(0))
    used = sum(p.numel() for p in engine.module.parameters())
    assert done.changed_share is not None and done.changed_share > 0.9
    assert done.changed_share * used == pytest.approx(round(done.changed_share * used))


async def test_an_update_without_finite_gradient_is_refused(engine: LendingEngine) -> None:
    trainer = TorchTrainer(CONFIG)
    await one(trainer, engine, batch(0))
    state, before = trainer._state, engine.values()
    assert state is not None
    masters = {name: master.detach().clone() for name, master in state.masters.items()}

    def break_logits(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        return output * math.inf

    handle = engine.module.lm_head.register_forward_hook(break_logits)
    refused = await train(trainer, engine, batch(1))
    handle.remove()
    assert [update.made for update in refused.updates] == [False]
    assert refused.changed_share == 0.0
    assert same(before, engine.values())
    assert same(masters, {n: m.detach() for n, m in state.masters.items()})

    untouched = LendingEngine(tiny_llama())
    reference = TorchTrainer(CONFIG)
    for trained, lender in ((trainer, engine), (reference, untouched)):
        if lender is untouched:
            await one(trained, lender, batch(0))
        assert (await one(trained, lender, batch(2))).made
    assert same(engine.values(), untouched.values()), "the moments were touched"


@pytest.mark.parametrize("dtype", DTYPES)
async def test_state_round_trip_is_exact(dtype: torch.dtype, tmp_path: Path) -> None:
    straight = LendingEngine(tiny_llama(dtype))
    trainer = TorchTrainer(CONFIG)
    for i in range(6):
        await one(trainer, straight, batch(i))

    first = LendingEngine(tiny_llama(dtype))
    trainer = TorchTrainer(CONFIG)
    for i in range(3):
        await one(trainer, first, batch(i))
    await trainer.save(tmp_path)

    second = LendingEngine(tiny_llama(dtype))
    second.module.load_state_dict(first.module.state_dict())
    trainer = TorchTrainer(CONFIG)
    await trainer.load(tmp_path, cast(Any, second))
    for i in range(3, 6):
        await one(trainer, second, batch(i))
    assert same(straight.values(), second.values())


async def test_state_before_the_first_update_is_empty(
    engine: LendingEngine, tmp_path: Path
) -> None:
    await TorchTrainer(CONFIG).save(tmp_path)
    trainer = TorchTrainer(CONFIG)
    await trainer.load(tmp_path, cast(Any, engine))
    fresh = LendingEngine(tiny_llama())
    await one(trainer, engine, batch(0))
    await one(TorchTrainer(CONFIG), fresh, batch(0))
    assert same(engine.values(), fresh.values())


async def test_state_of_other_weights_is_refused(engine16: LendingEngine, tmp_path: Path) -> None:
    trainer = TorchTrainer(CONFIG)
    await one(trainer, engine16, batch(0))
    await trainer.save(tmp_path)
    other = LendingEngine(tiny_llama(torch.bfloat16))
    with pytest.raises(RunFolderError, match="does not serve the weights"):
        await TorchTrainer(CONFIG).load(tmp_path, cast(Any, other))
    with pytest.raises(RunFolderError, match="does not serve the weights"):
        await one(trainer, other, batch(1))


@pytest.mark.parametrize("content", [None, b"", b"not a state"])
async def test_a_bad_state_file_is_one_clear_error(
    engine: LendingEngine, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / STATE_FILE.format("master")).write_bytes(content)
    with pytest.raises(RunFolderError, match="no readable optimizer state"):
        await TorchTrainer(CONFIG).load(tmp_path, cast(Any, engine))


async def test_the_module_is_given_back_as_it_was(engine: LendingEngine) -> None:
    frozen = [name for name, p in engine.module.named_parameters() if not p.requires_grad]
    await one(TorchTrainer(CONFIG), engine, batch(0))
    assert [name for name, p in engine.module.named_parameters() if not p.requires_grad] == frozen
    assert all(p.grad is None for p in engine.module.parameters())
    assert not engine.module.training


async def test_no_trained_token_is_no_update(engine: LendingEngine) -> None:
    done = await train(TorchTrainer(CONFIG), engine, [row([1, 2], [0, 0])], [])
    assert done == Updates()
