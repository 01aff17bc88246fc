"""A program that trains with Ray actors; its test kills Ray's head while it trains, or waits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from attrs import evolve
from cluster_kit import CONFIG, FolderEngine, ragged_rows, ray_on_cpu

from whale_core.errors import TrainerError
from whale_rsft.openrlhf.settings import OpenRLHF
from whale_rsft.openrlhf.trainer import OpenRLHFTrainer


async def train(folder: Path, when: str) -> None:
    """Make an update, say where the head is, and make more: at once, or after two minutes."""
    from ray._private.worker import _global_node

    engine = FolderEngine(folder / "model")
    config = evolve(CONFIG, openrlhf=OpenRLHF(gpus_per_rank=0.0))
    trainer = OpenRLHFTrainer(config, seed=0)
    await trainer.train([ragged_rows()], engine)
    head = _global_node.all_processes["gcs_server"][0].process
    print(f"head {head.pid}", flush=True)
    await asyncio.sleep(120 if when == "idle" else 0)
    await trainer.train([ragged_rows()] * 10_000, engine)


try:
    with ray_on_cpu():
        asyncio.run(train(Path(sys.argv[1]), sys.argv[2]))
except TrainerError as error:
    print(error, flush=True)
    sys.exit(error.exit_code)
