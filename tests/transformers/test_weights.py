"""Identity of weights, checkpoints, and lending the module."""

from __future__ import annotations

import asyncio

import pytest
import torch
from engine_kit import ask, generate, prompt

from whale_core.abilities import LendsModule
from whale_core.errors import EngineError, InputError
from whale_core.plugins import Setup
from whale_transformers.check import identical
from whale_transformers.config import Config
from whale_transformers.engine import TransformersEngine

BATCH = [ask(prompt(i, 90), 6, stream=i) for i in range(3)]


@pytest.fixture(params=["float32", "bfloat16"])
def own_engine(request):
    """An engine that a test may change."""
    engine = TransformersEngine(Config("tiny-random", request.param, threads=1), Setup(0))
    yield engine
    asyncio.run(engine.close())


def _nudge(module):
    assert not module.training
    with torch.no_grad():
        module.model.layers[1].mlp.down_proj.weight[3, 5] += 0.5
        module.lm_head.weight *= 1.5


def test_a_change_in_place_changes_the_id_and_the_samples(own_engine):
    assert isinstance(own_engine, LendsModule)
    before = asyncio.run(own_engine.weights_id())
    samples = generate(own_engine, BATCH)
    assert samples[0].weights_id == before == own_engine.facts()["initial_weights"]
    asyncio.run(own_engine.borrow(_nudge))
    after = asyncio.run(own_engine.refresh())
    assert len(after) == 16 and after != before
    changed = generate(own_engine, BATCH)
    assert changed[0].weights_id == after
    assert not all(map(identical, samples, changed))


def test_save_and_load_restore_weights_and_tokens(own_engine, tmp_path):
    first = asyncio.run(own_engine.weights_id())
    initial = generate(own_engine, BATCH)
    asyncio.run(own_engine.borrow(_nudge))
    changed_id = asyncio.run(own_engine.refresh())
    changed = generate(own_engine, BATCH)
    parameters = asyncio.run(own_engine.borrow(lambda m: list(m.parameters())))
    assert asyncio.run(own_engine.save(tmp_path / "step")) == changed_id

    assert asyncio.run(own_engine.load(None)) == first
    assert all(map(identical, initial, generate(own_engine, BATCH)))
    assert asyncio.run(own_engine.load(tmp_path / "step")) == changed_id
    assert all(map(identical, changed, generate(own_engine, BATCH)))
    same = asyncio.run(own_engine.borrow(lambda m: list(m.parameters())))
    assert all(one is other for one, other in zip(parameters, same, strict=True))

    dtype = own_engine.facts()["dtype"]
    other = TransformersEngine(Config(str(tmp_path / "step"), dtype, threads=1), Setup(0))
    assert asyncio.run(other.weights_id()) == changed_id
    assert all(map(identical, changed, generate(other, BATCH)))
    asyncio.run(other.close())


def test_a_folder_that_does_not_fit_changes_nothing(own_engine, tmp_path):
    from safetensors.torch import save_file

    before = asyncio.run(own_engine.weights_id())
    with pytest.raises(InputError, match="no safetensors"):
        asyncio.run(own_engine.load(tmp_path))
    state = asyncio.run(
        own_engine.borrow(lambda m: {k: v.clone() for k, v in m.state_dict().items()})
    )
    short = {name: value for name, value in state.items() if "norm" not in name}
    save_file(short, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"norm\.weight.* is missing"):
        asyncio.run(own_engine.load(tmp_path))
    state["model.norm.weight"] = torch.ones(3)
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="shape"):
        asyncio.run(own_engine.load(tmp_path))
    assert asyncio.run(own_engine.refresh()) == before


def test_the_lent_module_is_a_plain_one_even_after_an_error(own_engine):
    with pytest.raises(EngineError):
        generate(own_engine, [ask([], 3)])
    generate(own_engine, BATCH)

    def look(module):
        dressed = [name for name, m in module.named_modules() if "forward" in vars(m)]
        module.train()
        loss = module(torch.arange(3, 20)[None], labels=torch.arange(3, 20)[None]).loss
        loss.backward()
        assert all(p.grad is not None for p in module.parameters())
        return dressed, module.config._attn_implementation

    assert asyncio.run(own_engine.borrow(look)) == ([], "sdpa")
    generate(own_engine, BATCH)
    assert asyncio.run(own_engine.borrow(lambda m: m.training))  # left as the borrower had it


def test_a_closed_engine_says_so():
    engine = TransformersEngine(Config("tiny-random", "float32", threads=1), Setup(0))
    asyncio.run(engine.close())
    asyncio.run(engine.close())
    with pytest.raises(EngineError, match="closed"):
        generate(engine, BATCH)
