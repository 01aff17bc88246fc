"""Servers that are started with the run: by the command that vLLM has, ended with the run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import vllm_server_kit
from vllm_engine_kit import ask, generate

from whale_core.errors import EngineError, InputError
from whale_core.records import Generation, Sampling
from whale_vllm import servers
from whale_vllm.config import Config

STAND_IN = [sys.executable, vllm_server_kit.__file__]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit's server in place of vLLM, which takes half a minute to start and may not be here."""
    monkeypatch.setattr(servers, "program_of", lambda: STAND_IN)


def alive(url: str) -> bool:
    import httpx2

    try:
        return httpx2.get(f"{url}/health", trust_env=False).status_code == 200
    except httpx2.HTTPError:
        return False


def test_they_serve_and_end_with_the_engine(engines: Any) -> None:
    engine = engines(urls=(), replicas=2)
    made = generate(engine, [ask(1), ask(2)])
    assert all(isinstance(each, Generation) for each in made)
    urls = engine._fleet.pool.names
    logs = [server.log for server in engine._fleet.pool.started]
    assert len(urls) == 2 and all(map(alive, urls))
    asyncio.run(engine.close())
    assert not any(map(alive, urls)) and not any(log.exists() for log in logs)


def test_one_that_does_not_start_is_told_with_its_log(engines: Any) -> None:
    engine = engines(urls=(), arguments=("--fail",))
    with pytest.raises(EngineError) as error:
        asyncio.run(engine.probe(Sampling()))
    text = str(error.value)
    assert "ended with exit code 7: ValueError: no such device (its log: " in text
    log = Path(text.rpartition("(its log: ")[2].rstrip(")"))
    assert log.read_text() == "loading the model\nValueError: no such device\n"
    log.unlink()


def test_one_that_dies_stops_the_batch_with_its_log(engines: Any) -> None:
    engine = engines(urls=(), replicas=2)
    asyncio.run(engine.probe(Sampling()))
    second = engine._fleet.pool.started[1]
    os.kill(_child_of(second._process.pid), signal.SIGKILL)
    second._process.wait()
    with pytest.raises(EngineError, match=f"ended with exit code 137.*{second.log}"):
        generate(engine, [ask(1), ask(2)])
    asyncio.run(engine.close())
    assert second.log.exists()
    second.log.unlink()


def test_a_log_that_an_error_names_is_kept(engines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the server has not ended yet when the engine is closed."""
    engine = engines(urls=())
    asyncio.run(engine.probe(Sampling()))
    server = engine._fleet.pool.started[0]
    server.url = "http://127.0.0.1:9"  # nothing listens there, as after a server's last answer
    monkeypatch.setattr(engine._fleet.pool, "names", (server.url,))
    with pytest.raises(EngineError, match=f"does it still run.*{server.log}"):
        generate(engine, [ask(1)])
    asyncio.run(engine.close())
    assert server.log.exists()
    server.log.unlink()


def test_they_end_when_the_run_is_killed(folder: Path, tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(vllm_server_kit.__file__).parent)!r})
from whale_core.plugins import Setup
from whale_core.records import Sampling
from whale_vllm import servers
from whale_vllm.config import Config
from whale_vllm.engine import VLLMEngine
servers.program_of = lambda: {STAND_IN!r}
engine = VLLMEngine(Config(model={str(folder)!r}, max_context=64), Setup(0))
asyncio.run(engine.probe(Sampling()))
print(engine._fleet.pool.names[0], engine._fleet.pool.started[0].log, flush=True)
sys.stdin.read()
"""
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None and run.stdin is not None
    url, log = run.stdout.readline().split()
    assert alive(url)
    run.kill()
    run.wait()
    run.stdin.close()
    run.stdout.close()
    until = time.monotonic() + 60
    while alive(url) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(url)
    Path(log).unlink()


@pytest.mark.parametrize(
    ("settings", "visible", "shares"),
    [
        ({}, "0,1", [None]),
        ({"replicas": 2}, None, ["0", "1"]),
        ({"replicas": 2}, "", ["", ""]),
        ({"replicas": 2, "tensor_parallel": 2}, "4,5,6,7", ["4,5", "6,7"]),
    ],
)
def test_each_server_has_devices_of_its_own(
    settings: dict[str, int], visible: str | None, shares: list[str | None]
) -> None:
    assert servers.devices(Config(**settings), visible) == shares  # type: ignore[arg-type]


def test_too_few_devices_are_refused() -> None:
    with pytest.raises(InputError, match="they need 4 devices, CUDA_VISIBLE_DEVICES has 3"):
        servers.devices(Config(replicas=2, tensor_parallel=2), "0,1,2")


def test_no_default_of_the_model_or_server_is_left_to_decide(folder: Path) -> None:
    made = servers.command_of(Config(gpu_memory=0.5), folder, "bfloat16", "raw_logprobs", 129)
    told = dict(pairwise(made))
    assert told["--generation-config"] == "vllm" and told["--host"] == "127.0.0.1"
    assert told["--max-model-len"] == "129" and told["--dtype"] == "bfloat16"
    assert told["--logprobs-mode"] == "raw_logprobs"


@pytest.mark.parametrize(
    ("build", "whole"), [("0.32.0", None), ("0.32.0+cu130", None), ("0.32.0+cpu", "5001")]
)
def test_a_cpu_build_computes_no_prompt_in_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, build: str, whole: str | None
) -> None:
    """It would end on a seeded request: "CPU Generator does not use offset"."""
    monkeypatch.setattr(metadata, "version", lambda name: {"vllm": build}[name])
    made = servers.command_of(Config(), folder, "float32", "raw_logprobs", 5001)
    assert ("--no-enable-chunked-prefill" in made) == (whole is not None)
    assert dict(pairwise(made)).get("--max-num-batched-tokens") == whole


def test_a_missing_vllm_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(servers.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(servers.shutil, "which", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'whale-vllm\[vllm\]'"):
        servers.program_of()


def _child_of(process: int) -> int:
    return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])
