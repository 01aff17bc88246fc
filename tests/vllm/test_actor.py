"""The actor's own logic, without Ray and vLLM; with them: tests/cluster/test_vllm_actors.py."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vllm_engine_kit import ask

from whale_core import ray_connection
from whale_core.errors import EngineError, InputError
from whale_core.records import Sampling
from whale_transformers.tiny import tiny_folder
from whale_vllm import guard
from whale_vllm.actor import answer_of
from whale_vllm.actors import RayPool, RayReplica
from whale_vllm.arguments import arguments
from whale_vllm.completions import Unusable, generation_of, scores_of
from whale_vllm.config import Config, Ray
from whale_vllm.model import open_model


def output(
    ids: list[int],
    logprobs: list[float],
    prompt: list[int],
    finish_reason: str = "length",
    told: Any = ...,
    scores: Any = None,
) -> Any:
    """Return what vLLM's AsyncLLM gives of a finished request."""
    if told is ...:
        told = [{i: SimpleNamespace(logprob=p)} for i, p in zip(ids, logprobs, strict=True)]
    made = SimpleNamespace(token_ids=ids, logprobs=told, finish_reason=finish_reason)
    return SimpleNamespace(
        outputs=[made], prompt_token_ids=prompt, prompt_logprobs=scores, num_cached_tokens=16
    )


def test_an_output_is_read_as_an_answer_over_http_is() -> None:
    tokenizer = open_model(str(tiny_folder()), "auto").tokenizer
    request = ask(1, max_tokens=3)
    prompt = request.prompt_ids.tolist()
    answer = answer_of(output([70, 71, 72], [-1.0, float("-inf"), -0.5], prompt))
    made = generation_of(answer, request, 3, tokenizer, 259, "w")
    assert made.token_ids.tolist() == [70, 71, 72] and made.finish_reason == "length"
    assert made.logprobs.tolist() == [-1.0, float("-inf"), -0.5]
    assert made.cached_tokens == 16
    plain: dict[str, Any] = {"ids": [70, 71, 72], "logprobs": [-1.0] * 3, "prompt": prompt}
    for wrong, said in [
        ({"ids": [70, 2, 72]}, "ends the turn"),
        ({"prompt": [5]}, "another prompt"),
        ({"finish_reason": "abort"}, "given up"),
        ({"told": None}, "no log-probabilities"),
    ]:
        with pytest.raises(Unusable, match=said):
            generation_of(answer_of(output(**{**plain, **wrong})), request, 3, tokenizer, 259, "w")


def test_scores_of_given_tokens() -> None:
    row = np.array([5, 6, 7], np.int32)
    best = SimpleNamespace(logprob=-0.1)
    told = [None, *({i: SimpleNamespace(logprob=-float(i)), 9: best} for i in (6, 7))]
    answer = answer_of(output([1], [-1.0], row.tolist(), scores=told))
    assert scores_of(answer, row).tolist() == [-6.0, -7.0]


def test_settings_that_do_not_go_together_are_refused() -> None:
    for wrong, said in [
        ({"transport": "ray", "urls": ("http://a:1",)}, "transport=ray has none"),
        ({"transport": "ray", "tensor_parallel": 2, "ray": Ray(gpus=0.5)}, "only whole"),
        ({"transport": "grpc"}, "transport"),
        ({"arguments": ("--enable-sleep-mode",)}, "--enable-sleep-mode"),
    ]:
        with pytest.raises(ValueError, match=said):
            Config(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gpus"):
        Ray(gpus=1.5)
    Config(transport="ray", tensor_parallel=2)


def test_only_one_that_is_to_sleep_is_started_for_it() -> None:
    made = [arguments(Config(sleep=sleep), "float32", "raw_logprobs", 9) for sleep in (False, True)]
    assert ["--enable-sleep-mode" in each for each in made] == [False, True]


def test_a_missing_ray_is_said_with_the_command(
    engines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'whale-vllm\[ray\]'"):
        asyncio.run(engines(urls=(), transport="ray").probe(Sampling()))


def test_gpus_that_the_trainer_will_want_are_not_given_to_actors(
    engines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said before an actor is placed: vLLM would start for minutes, and the trainer then wait."""
    ray = SimpleNamespace(  # without ``remote``
        is_initialized=lambda: True,
        get_runtime_context=lambda: SimpleNamespace(gcs_address="127.0.0.1:9"),
        cluster_resources=lambda: {"GPU": 8.0},
        shutdown=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    trainer = ray_connection.Use("model_update.openrlhf.address", "local", "ranks=8", 8.0)
    ray_connection.plan(trainer)
    try:
        said = (
            r"^ranks=8 and engine\.replicas=2 x engine\.tensor_parallel=2 at engine\.ray\.gpus=1 "
        )
        with pytest.raises(InputError, match=said + "want 12 GPUs, the Ray cluster has 8: "):
            wanted = {"replicas": 2, "tensor_parallel": 2}
            asyncio.run(engines(urls=(), transport="ray", **wanted).probe(Sampling()))
    finally:
        ray_connection.leave(trainer)


def test_looking_whether_actors_live_does_not_hold_up_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray's head may take seconds to answer, or not to: requests go on meanwhile."""
    going_on = threading.Event()

    def slow(*_: object, **__: object) -> Any:
        assert going_on.wait(5.0), "the event loop waits too"
        return [], []

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(wait=slow))
    monkeypatch.setattr(ray_connection, "answers", lambda head: not slow())

    async def look(work: Coroutine[Any, Any, object]) -> object:
        going_on.clear()
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0)  # it has begun
        going_on.set()
        return await task

    async def both() -> None:
        replica = RayReplica("a", None, object(), asyncio.Future(), 1.0)
        assert await look(replica.healthy()) is False
        pool = object.__new__(RayPool)
        pool._head = "127.0.0.1:9"
        with pytest.raises(EngineError, match="does not answer"):
            await look(pool.check_alive())

    asyncio.run(both())


def test_what_a_killed_process_started_is_ended() -> None:
    """vLLM computes in processes of its own, which outlive a Ray actor that is killed."""
    code = f"""
import os, subprocess, sys
sys.path.insert(0, {str(Path(guard.__file__).parent)!r})
import guard
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
guard.watch([child.pid])
with open(f"/proc/self/task/{{os.getpid()}}/children") as children:
    assert children.read().split() == [str(child.pid)], "Ray would end the watcher too"
print(child.pid, flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        os.kill(child, 0)
        owner.send_signal(signal.SIGKILL)
    until = time.monotonic() + 30
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _runs(child)


def test_a_process_that_got_the_number_of_one_that_ended_is_left_alone() -> None:
    sleeping = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleeping) as meant, subprocess.Popen(sleeping) as another:
        known = [f"{another.pid}:1", f"{meant.pid}:{guard._start_of(meant.pid)}"]
        command = [sys.executable, "-I", "-S", guard.__file__, guard.WATCH, *known]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
        assert meant.wait(30) == -signal.SIGKILL
        with pytest.raises(subprocess.TimeoutExpired):  # its turn was before
            another.wait(0.1)
        another.kill()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
