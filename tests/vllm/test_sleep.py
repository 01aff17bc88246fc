"""Sleep: the memory is a trainer's until the engine is used again, with the weights it served."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vllm_server_kit
from vllm_engine_kit import ask, generate
from vllm_server_kit import Answer, Server, write_changed

from whale_core.abilities import Sleeps
from whale_core.errors import EngineError, InputError
from whale_core.records import Sampling
from whale_core.run.checkpoints import write_checkpoint
from whale_vllm import servers

LOAD = [
    "/pause",
    "/collective_rpc",
    "/reset_prefix_cache",
    "/weight_checker",
    "/update_weight_version",
    "/resume",
]


def asleep(engines: Any, servers: list[Server]) -> Any:
    """Return an engine whose servers have gone to sleep."""
    for server in servers:
        server.sleeps = True
    engine = engines(sleep=True)
    asyncio.run(engine.probe(Sampling()))
    assert isinstance(engine, Sleeps)
    for server in servers:
        server.calls.clear()
        server.queries.clear()
    asyncio.run(engine.sleep())
    for server in servers:
        assert server.calls == ["/sleep"] and server.queries == ["level=2&mode=wait"]
        assert server.asleep
    return engine


def test_new_weights_wake_it(
    engines: Any, servers: list[Server], folder: Path, tmp_path: Path
) -> None:
    """A weight step: asleep while it trains, and what it publishes is what is loaded."""
    engine = asleep(engines, servers)
    saved = asyncio.run(engine.save(tmp_path / "taken"))  # a trainer makes its module of it
    assert saved == asyncio.run(engine.weights_id())
    asyncio.run(engine.sleep())
    asyncio.run(engine.forget())
    assert all(server.calls == ["/sleep"] for server in servers)
    loaded = asyncio.run(engine.load(write_changed(folder, tmp_path / "changed", "a")))
    for server in servers:
        assert server.calls == ["/sleep", "/wake_up", *LOAD, "/weight_info"]
        assert server.serving == loaded
    assert {each.weights_id for each in generate(engine, [ask(1), ask(2)])} == {loaded}
    assert all(server.calls.count("/wake_up") == 1 for server in servers)


@pytest.mark.parametrize("use", ["generate", "logprobs"])
def test_a_use_wakes_it_with_what_it_served(engines: Any, servers: list[Server], use: str) -> None:
    """A weight step that trained on nothing hands nothing over."""
    engine = asleep(engines, servers)
    before = asyncio.run(engine.weights_id())
    if use == "generate":
        assert {each.weights_id for each in generate(engine, [ask(1), ask(2)])} == {before}
    else:
        asyncio.run(engine.logprobs(np.arange(3, 40, dtype=np.int32)))
    for server in servers:
        assert server.calls[: len(LOAD) + 2] == ["/sleep", "/wake_up", *LOAD]
        assert server.serving == before and not server.asleep


def test_a_wake_that_fails_is_made_again(engines: Any, servers: list[Server]) -> None:
    engine = asleep(engines, servers)
    broken = Answer({"error": {"message": "out of memory"}}, 500)
    servers[1].plan = lambda path, body: broken if path == "/wake_up" else None
    for _ in range(2):
        with pytest.raises(EngineError, match="/wake_up answers 500: out of memory"):
            generate(engine, [ask(1)])
    servers[1].plan = lambda path, body: None
    (made,) = generate(engine, [ask(1)])
    assert made.weights_id == servers[0].serving == servers[1].serving


class Stateless:
    """A trainer without a state."""

    async def save(self, path: Path) -> None:
        (path / "state").write_text("none")


def test_it_wakes_with_a_checkpoint_of_the_run(
    engines: Any, servers: list[Server], folder: Path, tmp_path: Path
) -> None:
    """The trainer's folder is gone by then, and the checkpoint was written under another name."""
    engine = asleep(engines, servers)
    handed_over = write_changed(folder, tmp_path / "handed-over", "a")
    loaded = asyncio.run(engine.load(handed_over))
    (tmp_path / "weights").mkdir()
    update: Any = Stateless()
    saved, _ = asyncio.run(write_checkpoint(tmp_path, "step-000001", engine, update))
    assert saved == loaded
    shutil.rmtree(handed_over)
    asyncio.run(engine.sleep())
    assert {each.weights_id for each in generate(engine, [ask(1), ask(2)])} == {loaded}
    assert all(server.serving == loaded for server in servers)
    assert asyncio.run(engine.save(tmp_path / "again")) == loaded


@pytest.mark.parametrize("left", ["asleep", "paused"])
@pytest.mark.parametrize("sleep", [True, False])
def test_running_servers_that_a_killed_run_left_are_used_again(
    engines: Any, servers: list[Server], left: str, sleep: bool
) -> None:
    for server in servers:
        server.sleeps = True
    if left == "asleep":
        engine = engines(sleep=True)
        asyncio.run(engine.probe(Sampling()))
        asyncio.run(engine.sleep())
        asyncio.run(engine.close())
        assert all(server.asleep for server in servers)
    else:
        for server in servers:
            server.paused = True
    engine = engines(sleep=sleep)
    asyncio.run(engine.probe(Sampling()))
    (made,) = generate(engine, [ask(1)])
    assert made.weights_id == servers[0].serving == servers[1].serving
    assert engine.facts()["logprobs_mode"] == "raw_logprobs"


def test_one_that_is_not_set_to_does_nothing(engines: Any, servers: list[Server]) -> None:
    engine = engines()
    asyncio.run(engine.probe(Sampling()))
    asyncio.run(engine.sleep())
    assert not any("/sleep" in server.calls or server.asleep for server in servers)


def test_one_that_cannot_is_refused_at_the_start(
    engines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running server says nothing and frees nothing; a started one ends, on a CPU."""
    with pytest.raises(InputError, match="was started without --enable-sleep-mode"):
        asyncio.run(engines(sleep=True).probe(Sampling()))
    stand_in = [servers.sys.executable, vllm_server_kit.__file__]
    monkeypatch.setattr(servers, "program_of", lambda: stand_in)
    with pytest.raises(InputError, match="no sleep mode on this platform") as error:
        asyncio.run(engines(sleep=True, urls=()).probe(Sampling()))
    assert "\n" not in str(error.value)
