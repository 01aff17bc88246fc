"""Training where the engine lends no module: the same weights, published, loaded and compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from attrs import evolve
from rsft_kit import RemoteEngine, row, tiny_engine

from whale_core.errors import InputError, RunFolderError, TrainerError
from whale_core.records import Floats, Ids, Row
from whale_core.testing.contracts import check_model_update
from whale_rsft.config import Config
from whale_rsft.places import Owned, tolerance_of
from whale_rsft.rsft import RSFT
from whale_rsft.torch_trainer import TorchTrainer

CONFIG = Config(micro_tokens=30, lr=1e-3)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Weights are published in a folder of the test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def batch(seed: int) -> list[Row]:
    draw = np.random.default_rng(seed)
    prompt = draw.integers(0, 250, 8).tolist()
    return [row([*prompt, *draw.integers(0, 250, 4)], [0] * 8 + [1] * 4, i) for i in range(3)]


async def trained(engine: Any, seeds: list[int], folder: Path | None = None) -> list[str]:
    """Train on a batch for each seed; return the weights ids."""
    trainer = TorchTrainer(CONFIG)
    if folder is not None:
        await engine.load(folder / "weights")
        await trainer.load(folder / "state", engine)
    ids = []
    for seed in seeds:
        done = await trainer.train([batch(seed), batch(seed + 100)], engine)
        assert [update.made for update in done.updates] == [True, True]
        ids.append(await engine.weights_id())
    await trainer.close()
    return ids


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_a_module_of_its_own_gets_the_weights_of_a_borrowed_one(
    dtype: str, temporary: Path
) -> None:
    lends, remote = tiny_engine(dtype), RemoteEngine(tiny_engine(dtype))
    expected = await trained(lends, [1, 2, 3])
    assert await trained(remote, [1, 2, 3]) == expected
    assert len(remote.loads) == 3
    assert not list(temporary.glob("whale-weights-*"))  # closed: the folders are gone
    # what the engine writes is what was trained
    assert await remote.save(temporary / "saved") == expected[-1]
    assert await lends.load(temporary / "saved") == expected[-1]
    await lends.close()
    await remote.close()


async def test_the_engine_sleeps_before_a_module_is_loaded_or_trained(temporary: Path) -> None:
    class Sleeping(RemoteEngine):
        asleep = False

        async def sleep(self) -> None:
            self.asleep = True

        async def load(self, path: Path | None) -> str:
            self.asleep = False
            return await super().load(path)

    engine, seen = Sleeping(tiny_engine()), []
    place = Owned(engine, "cpu")
    for _ in range(2):
        await place.run(lambda module: seen.append(engine.asleep))
        assert engine.asleep, "nothing was handed over: its next use wakes it"
        await place.hand_over(batch(1)[0])
        assert not engine.asleep
    assert seen == [True, True]
    await place.close()
    await engine.close()


async def test_what_the_engine_may_read_again_stays_until_another_is_loaded(
    temporary: Path,
) -> None:
    engine = RemoteEngine(tiny_engine())
    trainer = TorchTrainer(CONFIG)
    await trainer.prepare(cast(Any, engine))
    saved = list(temporary.glob("whale-weights-*/*/*.safetensors"))
    assert len(saved) == 1
    for seed in (1, 2):
        await trainer.train([batch(seed)], cast(Any, engine))
        [weights] = temporary.glob("whale-weights-*/*/*.safetensors")
        assert weights.parent == engine.loads[-1]
        assert (weights.parent / "tokenizer.json").is_file()
    await trainer.close()
    await engine.close()


async def test_it_goes_on_from_a_checkpoint_exactly(temporary: Path) -> None:
    engine = RemoteEngine(tiny_engine("bfloat16"))
    trainer = TorchTrainer(CONFIG)
    await trainer.train([batch(1), batch(101)], cast(Any, engine))
    await engine.save(temporary / "weights")
    await trainer.save(temporary / "state")
    await trainer.close()  # it may be used again, and goes on where it was
    await trainer.train([batch(2), batch(102)], cast(Any, engine))
    expected = await engine.weights_id()
    await trainer.close()
    await engine.close()

    for lends in (False, True):  # the state does not say where the module was
        inner = tiny_engine("bfloat16")
        other: Any = inner if lends else RemoteEngine(inner)
        assert await trained(other, [2], temporary) == [expected]
        await other.close()


async def test_an_engine_that_did_not_load_is_caught_before_its_rollouts() -> None:
    engine = RemoteEngine(tiny_engine())
    trainer = TorchTrainer(evolve(CONFIG, lr=1e-2))
    engine.deaf = True
    with pytest.raises(TrainerError, match="does not serve the trained weights: its log-prob"):
        await trainer.train([batch(1)], cast(Any, engine))
    await trainer.close()
    await engine.close()


async def test_an_engine_that_serves_another_id_than_it_loaded_is_caught() -> None:
    engine = RemoteEngine(tiny_engine())
    engine.load = lambda path: _value("other")  # type: ignore[method-assign]
    trainer = TorchTrainer(CONFIG)
    with pytest.raises(TrainerError, match="handed the weights other, but serves"):
        await trainer.train([batch(1)], cast(Any, engine))
    await trainer.close()
    await engine.close()


async def _value(text: str) -> str:
    return text


async def test_log_probabilities_that_are_off_or_none_are_caught() -> None:
    engine = RemoteEngine(tiny_engine())
    honest = engine.logprobs

    async def off(by: float, token_ids: Ids) -> Floats:
        shifted: Floats = await honest(token_ids) + np.float32(by)
        return shifted

    trainer = TorchTrainer(CONFIG)
    await trainer.train([batch(1)], cast(Any, engine))
    for by in (0.01, float("nan")):
        engine.logprobs = partial(off, by)  # type: ignore[method-assign]
        with pytest.raises(TrainerError, match=r"at most 0\.001"):
            await trainer.train([batch(2)], cast(Any, engine))
        trainer = TorchTrainer(CONFIG)
    await engine.close()


async def test_weights_that_somebody_else_loaded_are_not_trained_on() -> None:
    engine = RemoteEngine(tiny_engine())
    trainer = TorchTrainer(CONFIG)
    await trainer.train([batch(1)], cast(Any, engine))
    await engine.load(None)
    with pytest.raises(RunFolderError, match="does not serve the weights"):
        await trainer.prepare(cast(Any, engine))
    with pytest.raises(RunFolderError, match="does not serve the weights"):
        await trainer.train([batch(2)], cast(Any, engine))
    await trainer.close()
    await engine.close()


async def test_weights_that_make_no_module_are_refused(temporary: Path) -> None:
    engine = RemoteEngine(tiny_engine())

    async def save(path: Path) -> str:
        path.mkdir()
        return "w"

    engine.save = save  # type: ignore[method-assign]
    with pytest.raises(InputError, match="cannot be loaded for training"):
        await TorchTrainer(CONFIG).prepare(cast(Any, engine))
    assert not list(temporary.glob("whale-weights-*"))
    await engine.close()


async def test_a_device_that_is_not_there_is_refused() -> None:
    engine = RemoteEngine(tiny_engine())
    missing = "mps" if not torch.backends.mps.is_available() else "cuda"
    with pytest.raises(InputError, match=f"device={missing}: there is none here; use .*cpu"):
        await TorchTrainer(evolve(CONFIG, device=missing)).prepare(cast(Any, engine))
    await engine.close()


@pytest.mark.slow
def test_the_contract_holds_for_an_engine_that_lends_no_module() -> None:
    config = Config(prompts=4, group_size=4, lr=1e-2)
    check_model_update(RSFT, config, lambda: cast(Any, RemoteEngine(tiny_engine("bfloat16"))))


@pytest.mark.parametrize(
    ("dtype", "served", "bound"),
    [
        (torch.float32, {"dtype": "float32"}, 1e-3),
        (torch.float32, {}, 1e-3),
        (torch.float32, {"dtype": "bfloat16"}, 0.15),
        (torch.bfloat16, {"dtype": "bfloat16"}, 0.15),
    ],
)
def test_one_side_in_16_bits_widens_the_bound(
    dtype: torch.dtype, served: dict[str, str], bound: float
) -> None:
    class Engine:
        def facts(self) -> dict[str, str]:
            return served

    assert tolerance_of(dtype, cast(Any, Engine())) == bound
