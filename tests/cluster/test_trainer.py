"""Trainer ``openrlhf`` from outside, with real actors on a CPU: hand-over, exact resume, kills."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve
from cluster_kit import CONFIG, FolderEngine, build_model, ragged_rows, ray_on_cpu

from whale_core.errors import InputError, RunFolderError, TrainerError
from whale_rsft.openrlhf.settings import OpenRLHF
from whale_rsft.openrlhf.trainer import OpenRLHFTrainer
from whale_rsft.trainers import Updates

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]  # Ray's and DeepSpeed's


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with ray_on_cpu():
        import ray

        yield ray


def trainer(ranks: int = 2, zero: int = 2) -> OpenRLHFTrainer:
    settings = OpenRLHF(ranks=ranks, zero=zero, gpus_per_rank=0.0)
    return OpenRLHFTrainer(evolve(CONFIG, trainer="openrlhf", openrlhf=settings), seed=0)


def engine(folder: Path) -> Any:
    return FolderEngine(build_model("llama", folder / "model"))


def batches(count: int) -> list[Any]:
    return [ragged_rows(seed) for seed in range(count)]


def shown(done: Updates) -> list[tuple[float, float]]:
    return [(update.loss.nll, update.grad_norm) for update in done.updates]


async def test_resume_is_exact_and_only_at_equal_layout(ray: Any, tmp_path: Path) -> None:
    """Four updates in one go, and two of them after a stop: the same numbers, the same weights."""
    straight = engine(tmp_path / "straight")
    through = trainer()
    await through.prepare(straight)
    first = await through.train(batches(4)[:2], straight)
    state, weights = tmp_path / "state", tmp_path / "weights"
    await through.save(state)
    assert not [path for path in state.iterdir() if path.is_dir()], "the core hashes files"
    await straight.save(weights)
    rest = await through.train(batches(4)[2:], straight)
    await through.close()
    assert all(update.made for update in (*first.updates, *rest.updates))
    assert first.changed_share is not None and 0 < first.changed_share <= 1

    continued = FolderEngine(weights)
    again = trainer()
    await again.load(state, continued)
    repeated = await again.train(batches(4)[2:], continued)
    await again.close()
    assert shown(repeated) == shown(rest)
    assert await continued.weights_id() == await straight.weights_id()

    with pytest.raises(RunFolderError, match="2 ranks with ZeRO 2"):
        await trainer(ranks=1).load(state, FolderEngine(weights))
    with pytest.raises(RunFolderError, match="does not serve the weights"):
        await trainer().load(state, straight)


async def test_the_published_folder_is_the_trained_model(ray: Any, tmp_path: Path) -> None:
    """Tied and hybrid, from ZeRO 3: it loads whole, and scores as the trainer does."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    served = FolderEngine(build_model("qwen3.5", tmp_path / "model"))
    before = served.folder
    one = trainer(ranks=1, zero=3)
    await one.train([ragged_rows()], served)  # compares log-probabilities by itself
    await one.close()
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        served.folder, dtype=torch.bfloat16, output_loading_info=True
    )
    module, found = loaded
    assert not found["missing_keys"] and not found["unexpected_keys"]
    assert module.config.use_cache is not False, "a setting for training was published"
    AutoTokenizer.from_pretrained(served.folder)
    assert (before / "config.json").read_text() == (served.folder / "config.json").read_text()


@pytest.mark.parametrize("zero", [2, 3])
async def test_a_gradient_that_is_not_finite_is_refused(
    ray: Any, tmp_path: Path, zero: int
) -> None:
    """ZeRO 3 itself would take the step, and every weight would be NaN."""
    from safetensors.torch import load_file, save_file

    served = engine(tmp_path)
    file = served.folder / "model.safetensors"
    tensors = load_file(file)
    tensors["model.layers.0.mlp.up_proj.weight"][0, 0] = float("inf")
    save_file(tensors, file, metadata={"format": "pt"})
    before = await served.weights_id()
    one = trainer(ranks=1, zero=zero)
    done = await one.train([ragged_rows()], served)
    await one.close()
    assert [update.made for update in done.updates] == [False]
    assert done.changed_share == 0.0
    assert await served.weights_id() == before and not served.loaded


async def test_an_engine_that_serves_other_weights_is_caught(ray: Any, tmp_path: Path) -> None:
    class Stale(FolderEngine):
        async def logprobs(self, token_ids: Any) -> Any:
            return await super().logprobs(token_ids) - np.float32(1.0)

    one = trainer(ranks=1)
    with pytest.raises(TrainerError, match="does not serve the trained weights"):
        await one.train([ragged_rows()], Stale(engine(tmp_path).folder))
    await one.close()


async def test_a_killed_actor_is_a_clean_stop(ray: Any, tmp_path: Path) -> None:
    served = engine(tmp_path)
    one = trainer()
    await one.train([ragged_rows()], served)
    before = await served.weights_id()
    assert one._session is not None
    pids = one._session.call("alive")
    training = asyncio.create_task(one.train(batches(50), served))
    await asyncio.sleep(0.5)
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(TrainerError, match="resume the run") as caught:
        await asyncio.wait_for(training, 120)
    assert "\n" not in str(caught.value)
    assert await served.weights_id() == before, "the engine has what the checkpoint has"
    with pytest.raises(TrainerError, match="resume the run"):
        await one.train([ragged_rows()], served)
    await one.close()


async def test_too_few_gpus_is_one_line(ray: Any, tmp_path: Path) -> None:
    settings = OpenRLHF(ranks=2, gpus_per_rank=1.0)
    one = OpenRLHFTrainer(evolve(CONFIG, openrlhf=settings), seed=0)
    with pytest.raises(InputError, match="want 2 GPUs, the Ray cluster has 0"):
        await one.prepare(engine(tmp_path))


@pytest.mark.parametrize("when", ["training", "idle"])
def test_a_killed_head_is_a_clean_stop(tmp_path: Path, when: str) -> None:
    """Ray itself would end the whole program a minute later."""
    build_model("llama", tmp_path / "model")
    command = [sys.executable, str(Path(__file__).with_name("head_run.py")), str(tmp_path), when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        said = next(line for line in run.stdout if line.startswith("head "))
        os.kill(int(said.split()[1]), signal.SIGKILL)
        rest = run.stdout.read()
        assert run.wait(300) == TrainerError.exit_code, rest
    assert "Ray's head" in rest and "resume the run" in rest
