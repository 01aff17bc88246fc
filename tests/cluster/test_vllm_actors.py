"""The engine ``vllm`` over Ray, with real actors on a CPU: the contract, the tokens of the HTTP
transport, weights handed over, wrong ones caught, kills."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import vllm_actors_kit as kit
from attrs import evolve

sys.path.insert(0, str(Path(__file__).parents[1] / "vllm"))  # for vllm_server_kit

from vllm_server_kit import write_changed

from whale_core.errors import EngineError, InputError
from whale_core.keys import generator
from whale_core.records import Generation, Sampling
from whale_core.testing.contracts import check_engine
from whale_vllm import fleet
from whale_vllm.engine import VLLMEngine

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]  # Ray's own

TIE = 1e-3  # two tokens whose log-probabilities lie so close may change places
LOADS = 5


@pytest.fixture(scope="module")
def engine() -> Iterator[VLLMEngine]:
    made = kit.opened(kit.settings("ray"))
    yield made
    asyncio.run(made.close())


def actor_of(engine: VLLMEngine) -> Any:
    return engine._fleet.pool.actors[0]  # type: ignore[union-attr, attr-defined]


def loads(engine: VLLMEngine, folders: list[Path]) -> str:
    """Load each folder, and say how long one took."""
    took = []
    for folder in folders:
        begun = time.monotonic()
        asyncio.run(engine.load(folder))
        took.append(time.monotonic() - begun)
    return f"weights in {1000 * median(took):.0f} ms ({1000 * min(took):.0f} at best)"


def test_tokens_and_log_probabilities_are_those_of_the_http_transport(
    engine: VLLMEngine, tmp_path: Path
) -> None:
    changed = [write_changed(Path(engine._config.model), tmp_path / str(n), str(n)) for n in (0, 1)]
    folders = [changed[n % 2] for n in range(LOADS)]
    asked = kit.requests(Sampling(temperature=0.0))
    sampled = kit.requests(Sampling())
    row = generator("row").integers(3, 259, 200).astype(np.int32)
    ours = asyncio.run(engine.generate(asked)), asyncio.run(engine.generate(sampled))
    scores = asyncio.run(engine.logprobs(row))
    print("ray:", loads(engine, folders))
    asyncio.run(engine.load(None))
    other = kit.opened(kit.settings("http"))
    try:
        theirs = asyncio.run(other.generate(asked)), asyncio.run(other.generate(sampled))
        np.testing.assert_allclose(scores, asyncio.run(other.logprobs(row)), atol=1e-4)
        assert asyncio.run(engine.weights_id()) == asyncio.run(other.weights_id())
        assert engine.facts()["vllm"] == other.facts()["vllm"]
        print("http:", loads(other, folders))
    finally:
        asyncio.run(other.close())
    ties = 0
    for one, two in zip(ours[0] + ours[1], theirs[0] + theirs[1], strict=True):
        assert isinstance(one, Generation) and isinstance(two, Generation)
        if one.token_ids.tolist() == two.token_ids.tolist():
            np.testing.assert_allclose(one.logprobs, two.logprobs, atol=2e-3)
            assert one.finish_reason == two.finish_reason
            continue
        place = int(np.flatnonzero(one.token_ids != two.token_ids[: len(one.token_ids)])[0])
        assert abs(one.logprobs[place] - two.logprobs[place]) < TIE
        ties += 1
    assert ties <= 2, f"{ties} of {2 * len(asked)}"
    assert max(each.cached_tokens for each in ours[1]) > 0  # the rollouts of a prompt share keys


def test_new_weights_are_served_and_the_old_ones_again(engine: VLLMEngine, tmp_path: Path) -> None:
    asked = kit.requests(Sampling(), count=8)
    before = asyncio.run(engine.generate(asked))
    changed = write_changed(Path(engine._config.model), tmp_path / "changed", "a")
    weights_id = asyncio.run(engine.load(changed))
    after = asyncio.run(engine.generate(asked))
    assert {each.weights_id for each in after} == {weights_id}
    assert [a.token_ids.tolist() for a in after] != [b.token_ids.tolist() for b in before]
    assert asyncio.run(engine.save(tmp_path / "saved")) == weights_id
    asyncio.run(engine.load(None))
    restored = asyncio.run(engine.generate(asked))
    assert [a.token_ids.tolist() for a in restored] == [b.token_ids.tolist() for b in before]


def test_wrong_weights_are_caught_before_a_rollout_is_used(
    engine: VLLMEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    actor = actor_of(engine)
    changed = write_changed(Path(engine._config.model), tmp_path / "changed", "b")
    row = generator("row").integers(3, 259, 64).astype(np.int32)
    before = asyncio.run(engine.logprobs(row))
    ray.get(actor.set_weight_version.remote("somebody-elses"))
    with pytest.raises(EngineError, match="serves weights 'somebody-elses'"):
        asyncio.run(engine.generate(kit.requests(Sampling(), count=2)))
    asyncio.run(engine.load(None))

    # The right name on other numbers: what a trainer compares shows it.
    for call in (actor.pause.remote, actor.resume.remote):
        ray.get(actor.reload.remote(str(changed)))
        ray.get(call())
    assert np.abs(asyncio.run(engine.logprobs(row)) - before).mean() > 0.1

    # One that says that it loaded, and did not.
    asyncio.run(engine.load(None))

    async def deaf(self: object, folder: Path) -> None: ...

    replica = type(asyncio.run(_first(engine)))
    monkeypatch.setattr(replica, "reload", deaf)
    with pytest.raises(EngineError, match="computes with those of"):
        asyncio.run(engine.load(changed))
    with pytest.raises(EngineError, match="nobody knows what is served"):
        asyncio.run(engine.generate(kit.requests(Sampling(), count=2)))
    monkeypatch.undo()
    asyncio.run(engine.load(None))
    with pytest.raises(EngineError, match="reload: "):  # its own words, on one line
        asyncio.run(_reload(engine, tmp_path / "none"))
    asyncio.run(engine.load(None))


async def _first(engine: VLLMEngine) -> fleet.Replica:
    async with engine._fleet as opened:  # type: ignore[union-attr]
        return opened.replicas[0]


async def _reload(engine: VLLMEngine, folder: Path) -> None:
    async with engine._fleet as opened:  # type: ignore[union-attr]
        await opened.replicas[0].reload(folder)


def test_what_waits_no_longer_is_given_up(engine: VLLMEngine) -> None:
    async def cancel() -> None:
        long = kit.requests(Sampling(), count=8, tokens=800)
        work = asyncio.create_task(engine.generate(long))
        await asyncio.sleep(0.5)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        begun = time.monotonic()
        await engine.load(None)  # waits for all requests under way
        print(f"loaded {time.monotonic() - begun:.2f} s after they were given up")

    asyncio.run(cancel())


def test_it_keeps_the_contract(engine: VLLMEngine) -> None:
    """The last test with this engine: the contract closes it."""
    actor, computing = kit.processes(engine)
    check_engine(lambda config, setup: engine, engine._config)
    assert computing and kit.ended([actor, *computing]), "it left processes behind"


def test_what_cannot_be_met_is_one_line() -> None:
    wanted = kit.settings("ray")
    for changed, said in [
        (evolve(wanted, ray=evolve(wanted.ray, gpus=1.0)), "want 1 GPUs, the Ray cluster has 0"),
        (evolve(wanted, arguments=("--nonsense",)), "engine.arguments: .*nonsense"),
        (evolve(wanted, sleep=True), "engine.sleep=true: vLLM has no sleep mode on this platform"),
        (evolve(wanted, ray=evolve(wanted.ray, address="127.0.0.1:1")), "no Ray cluster there"),
    ]:
        with pytest.raises(InputError, match=said) as error:
            kit.opened(changed)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("killed", ["actor", "computing", "head", "run"])
def test_a_kill_is_a_clean_stop_that_leaves_nothing(killed: str) -> None:
    """Of the actor, of vLLM's process in it, of Ray's head, of the run itself."""
    command = [sys.executable, kit.__file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        said = next(line for line in run.stdout if line.startswith("running "))
        own, head, actor, *computing = map(int, said.split()[1:])
        assert computing
        time.sleep(1.0)
        victims = {"actor": actor, "computing": computing[0], "head": head, "run": own}
        os.kill(victims[killed], signal.SIGKILL)
        rest = run.stdout.read() if killed != "run" else ""
        code = run.wait(300)
    assert kit.ended([actor, *computing]), "processes are left that hold a device"
    if killed == "run":
        return
    assert code == EngineError.exit_code, rest
    (line,) = [line for line in rest.splitlines() if "vLLM actor" in line or "Ray's head" in line]
    assert "resume the run" in line or killed == "computing", line
