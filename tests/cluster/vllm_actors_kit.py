"""The engine ``vllm`` over Ray on a CPU: its settings, requests, and what it left running.

Run as a program it samples until something is killed: ``python vllm_actors_kit.py``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import numpy as np

from whale_core.errors import EngineError
from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.records import GenerationRequest, Sampling
from whale_transformers.tiny import tiny_folder
from whale_vllm.config import Config, Ray
from whale_vllm.engine import VLLMEngine

SMALL = ("--enforce-eager", "--kv-cache-memory-bytes", "200000000", "--max-num-seqs", "64")


def settings(transport: str, replicas: int = 1) -> Config:
    """Return the settings of an engine for the tiny model on CPUs."""
    return Config(
        model=str(tiny_folder()),
        transport=transport,
        ray=Ray(gpus=0.0),
        replicas=replicas,
        max_context=1024,
        gpu_memory=0.1,
        arguments=SMALL,
    )


def opened(config: Config) -> VLLMEngine:
    """Return an engine that has started, and say how long that took."""
    begun = time.monotonic()
    engine = VLLMEngine(config, Setup(0))
    asyncio.run(engine.probe(Sampling()))
    print(f"{config.transport}: started in {time.monotonic() - begun:.1f} s", flush=True)
    return engine


def requests(sampling: Sampling, count: int = 24, tokens: int = 16) -> list[GenerationRequest]:
    """Return requests of which four in a row share a prompt."""
    made = []
    for index in range(count):
        length = 150 + 7 * (index // 4)  # more than a block of the prefix cache
        ids = generator("real prompt", index // 4).integers(3, 259, length).astype(np.int32)
        key = generator("real key", index).bytes(16)
        made.append(GenerationRequest(ids, tokens, (), sampling, key))
    return made


def processes(engine: VLLMEngine) -> tuple[int, list[int]]:
    """Return the first actor's process, and those that vLLM started for it."""
    import psutil
    import ray

    told = ray.get(engine._fleet.pool._started[0])  # type: ignore[union-attr, attr-defined]
    pid = int(told["pid"])
    children = psutil.Process(pid).children(recursive=True)
    return pid, [each.pid for each in children if "VLLM" in " ".join(each.cmdline())]


def ended(pids: list[int], seconds: float = 60.0) -> bool:
    """Say whether all processes end within ``seconds``."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(map(_runs, pids)):
            return True
        time.sleep(0.2)
    return False


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def _sample(engine: VLLMEngine) -> None:
    while True:
        await engine.generate(requests(Sampling(), tokens=64))


def main() -> int:
    """Start, say who runs, sample; return the exit code of what ends it."""
    engine = opened(settings("ray"))
    from ray._private.worker import _global_node  # only now there is one

    actor, computing = processes(engine)
    head = _global_node.all_processes["gcs_server"][0].process.pid
    print("running", os.getpid(), head, actor, *computing, flush=True)
    try:
        asyncio.run(_sample(engine))
    except EngineError as error:
        print(error, flush=True)
        asyncio.run(engine.close())
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
