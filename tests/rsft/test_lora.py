"""LoRA: factors get the gradients of W0 + s·B·A, the engine serves that sum, resume is exact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from attrs import evolve
from rsft_kit import (
    VOCABULARY,
    LendingEngine,
    RemoteEngine,
    row,
    tiny_engine,
    tiny_hybrid,
    tiny_llama,
)
from torch.func import functional_call

from whale_core.errors import InputError, RunFolderError
from whale_core.records import Row
from whale_rsft.config import Config, LoRA
from whale_rsft.lora import Adapter, targets
from whale_rsft.masters import Masters
from whale_rsft.torch_trainer import TorchTrainer

CONFIG = Config(micro_tokens=12, lr=1e-2, lora=LoRA(rank=3, alpha=6.0))
SCALE = 2.0
DTYPES = [torch.float32, torch.bfloat16]


def batch(seed: int) -> list[Row]:
    """Four rows of 6 to 13 tokens, masks with holes."""
    draw = np.random.default_rng(seed)
    rows = []
    for i in range(4):
        mask = [0] * 4 + [*draw.integers(0, 2, 1 + 2 * i), 1]
        rows.append(row(draw.integers(0, VOCABULARY, len(mask)), mask, i))
    return rows


def reference_loss(model: Any, weights: dict[str, torch.Tensor], rows: list[Row]) -> torch.Tensor:
    """The token mean of the model with ``weights`` in place of its own."""
    picked = []
    for r in rows:
        ids = torch.tensor(r.input_ids, dtype=torch.long)
        logits = functional_call(model, weights, (), {"input_ids": ids[None]}).logits[0, :-1]
        logp = torch.log_softmax(logits, -1).gather(-1, ids[1:, None])[:, 0]
        picked.append(logp[torch.tensor(r.loss_mask[1:], dtype=torch.bool)])
    return -torch.cat(picked).mean()


@pytest.mark.parametrize("make", [tiny_llama, tiny_hybrid])
@pytest.mark.parametrize("wanted", [("all-linear",), ("q_proj", "model.layers.1.mlp.up_proj")])
async def test_three_updates_equal_adamw_on_the_factors(make: Any, wanted: tuple[str, ...]) -> None:
    """Plain torch: autograd through W0 + s·B·A, clip_grad_norm_, AdamW; from the same A."""
    config = evolve(CONFIG, clip=0.5, weight_decay=0.1, lora=evolve(CONFIG.lora, targets=wanted))
    engine = LendingEngine(make())
    trainer = TorchTrainer(config)
    norms = [
        (await trainer.train([batch(i)], cast(Any, engine))).updates[0].grad_norm for i in range(3)
    ]

    model = make()
    fresh = Adapter.new(model, config, 0)
    factors = {n: m.clone().requires_grad_() for n, m in fresh._factors.masters.items()}
    optimizer = torch.optim.AdamW(
        list(factors.values()), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1
    )
    base = dict(model.named_parameters())

    def merged() -> dict[str, torch.Tensor]:
        return {
            n: base[n] + SCALE * factors[f"{n}.lora_B"] @ factors[f"{n}.lora_A"]
            for n in targets(model, wanted)
        }

    for i, norm in enumerate(norms):
        optimizer.zero_grad()
        reference_loss(model, merged(), batch(i)).backward()  # type: ignore[no-untyped-call]
        plain = torch.nn.utils.clip_grad_norm_(factors.values(), 0.5)
        assert norm == pytest.approx(float(plain), rel=1e-4)
        optimizer.step()
    served = engine.values()
    for name, value in merged().items():
        torch.testing.assert_close(served[name], value.detach(), rtol=1e-4, atol=2e-5)
        assert not torch.equal(served[name], base[name])
    for name in base.keys() - merged().keys():
        assert torch.equal(served[name], base[name]), "only targets move"


@pytest.mark.parametrize("dtype", DTYPES)
async def test_served_values_are_the_rounded_sum(dtype: torch.dtype) -> None:
    engine = LendingEngine(tiny_llama(dtype))
    before = engine.values()
    trainer = TorchTrainer(CONFIG)
    done = await trainer.train([batch(0), batch(1)], cast(Any, engine))
    assert isinstance(trainer._state, Adapter)
    factors = trainer._state._factors
    assert {each.dtype for each in factors.masters.values()} == {torch.float32}
    after = engine.values()
    changed = 0
    for name, value in after.items():
        if name in trainer._state.names:
            b, a = factors.masters[f"{name}.lora_B"], factors.masters[f"{name}.lora_A"]
            whole = torch.addmm(before[name].float(), b, a, alpha=SCALE)
            assert torch.equal(value, whole.to(dtype))
        changed += int((value != before[name]).sum())
    assert done.changed_share == changed / sum(value.numel() for value in after.values())
    assert done.changed_share > 0.1


def test_nothing_but_the_factors_is_kept_in_float32(tmp_path: Path) -> None:
    model = tiny_llama(torch.bfloat16)
    adapter = Adapter.new(model, CONFIG, 0)
    kept = sum(each.numel() for each in adapter._factors.masters.values())
    assert kept == sum(3 * sum(weight.shape) for weight in targets(model, ("all-linear",)).values())
    assert {each.dtype for each in adapter._base.values()} == {torch.bfloat16}
    assert all(not b.any() for n, b in adapter._factors.masters.items() if n.endswith("lora_B"))
    for name, a in adapter._factors.masters.items():
        if name.endswith("lora_A"):
            assert 0.8 < float(a.abs().max()) * math.sqrt(a.shape[1]) <= 1.0
    other = Adapter.new(model, CONFIG, 1)
    same = Adapter.new(model, CONFIG, 0)
    for name, a in adapter._factors.masters.items():
        assert torch.equal(a, same._factors.masters[name])
        assert name.endswith("lora_B") or not torch.equal(a, other._factors.masters[name])


@pytest.mark.parametrize("dtype", DTYPES)
async def test_state_round_trip_is_exact(dtype: torch.dtype, tmp_path: Path) -> None:
    straight = LendingEngine(tiny_llama(dtype))
    trainer = TorchTrainer(CONFIG)
    for i in range(4):
        await trainer.train([batch(i)], cast(Any, straight))

    first = LendingEngine(tiny_llama(dtype))
    trainer = TorchTrainer(CONFIG)
    for i in range(2):
        await trainer.train([batch(i)], cast(Any, first))
    await trainer.save(tmp_path)
    second = LendingEngine(tiny_llama(dtype))
    second.module.load_state_dict(first.module.state_dict())
    trainer = TorchTrainer(CONFIG)
    await trainer.load(tmp_path, cast(Any, second))
    for i in range(2, 4):
        await trainer.train([batch(i)], cast(Any, second))
    assert all(torch.equal(value, second.values()[n]) for n, value in straight.values().items())


async def test_state_before_the_first_update_is_empty(tmp_path: Path) -> None:
    engine = LendingEngine(tiny_llama())
    await TorchTrainer(CONFIG).save(tmp_path)
    trainer = TorchTrainer(CONFIG)
    await trainer.load(tmp_path, cast(Any, engine))
    await trainer.train([batch(0)], cast(Any, engine))
    other = LendingEngine(tiny_llama())
    await TorchTrainer(CONFIG).train([batch(0)], cast(Any, other))
    assert all(torch.equal(value, other.values()[n]) for n, value in engine.values().items())


async def test_a_state_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    engine = LendingEngine(tiny_llama())
    trainer = TorchTrainer(CONFIG)
    await trainer.train([batch(0)], cast(Any, engine))
    await trainer.save(tmp_path / "lora")
    whole = TorchTrainer(evolve(CONFIG, lora=LoRA()))
    await whole.train([batch(0)], cast(Any, LendingEngine(tiny_llama())))
    await whole.save(tmp_path / "whole")

    async def load(config: Config, folder: str, into: LendingEngine = engine) -> None:
        await TorchTrainer(config).load(tmp_path / folder, cast(Any, into))

    await load(CONFIG, "lora")
    with pytest.raises(RunFolderError, match="does not serve the weights"):
        await load(CONFIG, "lora", LendingEngine(tiny_llama()))
    with pytest.raises(RunFolderError, match="does not serve the weights"):
        await load(evolve(CONFIG, lora=LoRA()), "lora")
    with pytest.raises(RunFolderError, match=r"rsft-base\.safetensors"):
        await load(CONFIG, "whole")
    with pytest.raises(RunFolderError, match="do not go with the factors"):
        await load(evolve(CONFIG, lora=evolve(CONFIG.lora, rank=4)), "lora")
    (tmp_path / "lora" / "rsft-base.safetensors").write_bytes(b"damaged")
    with pytest.raises(RunFolderError, match=r"rsft-base\.safetensors"):
        await load(CONFIG, "lora")


def test_targets_are_named_by_the_end_of_their_path() -> None:
    model = tiny_llama()
    assert len(targets(model, ("all-linear",))) == 2 * 7  # not the output layer
    assert set(targets(model, ("layers.1.self_attn.q_proj",))) == {
        "model.layers.1.self_attn.q_proj.weight"
    }
    assert len(targets(model, ("v_proj", "o_proj"))) == 4
    assert "lm_head.weight" in targets(tiny_llama(tied=False), ("lm_head",))


@pytest.mark.parametrize("name", ["query", "proj", "embed_tokens", "lm_head"])  # lm_head: tied
async def test_a_target_that_is_not_there_is_refused(name: str) -> None:
    config = evolve(CONFIG, lora=evolve(CONFIG.lora, targets=("q_proj", name)))
    with pytest.raises(InputError, match=f"is called {name}; there are down_proj, .*all-linear"):
        await TorchTrainer(config).prepare(cast(Any, LendingEngine(tiny_llama())))


async def test_the_engine_serves_the_merged_weights(tmp_path: Path) -> None:
    """Lent or not: the same weights id, which saved and loaded weights have too."""
    config = evolve(CONFIG, gradient_checkpointing=True, logits_at_once=4)
    ids: list[str] = []
    engines: list[Any] = [tiny_engine("bfloat16"), RemoteEngine(tiny_engine("bfloat16"))]
    for engine in engines:
        before = await engine.weights_id()
        trainer = TorchTrainer(config, seed=5)
        await trainer.train([batch(0)], engine)
        await trainer.train([batch(1)], engine)
        ids.append(await engine.weights_id())
        assert ids[-1] != before
        folder = tmp_path / str(len(ids))
        assert await engine.save(folder) == ids[-1]
        await engine.load(None)
        assert await engine.load(folder) == ids[-1]
        await trainer.close()
        await engine.close()
    assert ids[0] == ids[1]


def test_peft_gives_the_same_model() -> None:
    """Where peft is installed: its LoRA layer with our factors computes what is served."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = tiny_llama()
    adapter = Adapter.new(model, CONFIG, 0)
    for name, factor in adapter._factors.masters.items():
        if name.endswith("lora_B"):
            factor.copy_(torch.linspace(-0.1, 0.1, factor.numel()).view_as(factor))
    ids = torch.arange(12)[None]
    wrapped = peft.inject_adapter_in_model(
        peft.LoraConfig(r=3, lora_alpha=6, target_modules="all-linear"), tiny_llama()
    )
    state = {}
    for name, factor in adapter._factors.masters.items():
        path, kind = name.rsplit(".weight.", 1)
        state[f"{path}.{kind}.default.weight"] = factor
    found = wrapped.load_state_dict(state, strict=False)
    assert not found.unexpected_keys
    with torch.no_grad():
        adapter.round_into(dict(model.named_parameters()))
        torch.testing.assert_close(
            model(input_ids=ids).logits, wrapped(input_ids=ids).logits, rtol=1e-4, atol=1e-4
        )


def test_without_lora_every_parameter_is_a_master() -> None:
    masters = Masters(dict(tiny_llama().named_parameters()), Config())
    assert masters.names == dict(tiny_llama().named_parameters()).keys()
