"""Memory and speed of one RSFT step on a model of Qwen3.5-2B's shape, trainer ``torch``.

    python benchmarks/gpu_step.py --output FILE                      on a GPU
    python benchmarks/gpu_step.py --shape tiny --device cpu --tokens 64 --output FILE

Random weights (``qwen_shape.py``) or those of ``--model FOLDER``. One step is one update of AdamW
over ``--rows`` rows of ``--tokens`` tokens, the second half of each trained on; a hybrid model's
rows are computed one at a time. The first update makes the optimizer's state and is not timed.
Compared are training whole, with gradient checkpointing, with logits of few positions at once
(``logits_at_once``) as well, and LoRA with both. A way that runs out of memory says so, and the
others go on. On a CPU no memory is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from qwen_shape import SHAPES, build

from whale_core.errors import TrainerError
from whale_core.keys import generator
from whale_core.records import Row
from whale_rsft.config import Config, LoRA
from whale_rsft.places import load_module
from whale_rsft.torch_trainer import TorchTrainer

MIB = 1 << 20
LOGITS = 256
WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "checkpointed": {"gradient_checkpointing": True},
    "lean logits": {"gradient_checkpointing": True, "logits_at_once": LOGITS},
    "LoRA": {"gradient_checkpointing": True, "logits_at_once": LOGITS, "lora": LoRA(rank=16)},
}
KERNELS = ("fla", "causal_conv1d")  # without them linear attention is computed by plain torch


class Lent:
    """The part of an engine that a trainer meets: it lends its module."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._thread = ThreadPoolExecutor(1)

    async def borrow(self, work: Any) -> Any:
        """Run ``work(module)`` on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._module)

    async def refresh(self) -> str:
        """Nothing is cached."""
        return ""


def rows(options: argparse.Namespace, vocabulary: int) -> list[Row]:
    length = options.tokens
    mask = np.repeat([0, 1], [length - length // 2, length // 2]).astype(np.uint8)
    made = []
    for i in range(options.rows):
        ids = generator("gpu step", i).integers(3, vocabulary, length).astype(np.int32)
        made.append(Row(ids, mask, np.full(length, -5.0, np.float32), i))
    return made


def measure(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what the second of two updates took."""
    on_gpu = options.device == "cuda"
    device = torch.device(options.device)
    module: Any = (
        load_module(options.model, device) if options.model else build(options.shape, str(device))
    )
    batch = rows(options, module.config.vocab_size)
    parameters = sum(each.numel() for each in module.parameters())
    trainer = TorchTrainer(Config(lr=1e-5, **WAYS[way]))
    engine = cast(Any, Lent(module))

    async def two() -> tuple[float, Any]:
        await trainer.train([batch], engine)
        if on_gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        done = await trainer.train([batch], engine)
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - begun, done.updates[0]

    seconds, update = asyncio.run(two())
    return {
        "parameters": parameters,
        "seconds": round(seconds, 3),
        "tokens_per_second": round(update.computed_tokens / seconds, 1),
        "trained_tokens_per_second": round(update.tokens / seconds, 1),
        "served_mib": round(sum(p.nbytes for p in module.parameters()) / MIB),
        "peak_mib": round(torch.cuda.max_memory_allocated() / MIB) if on_gpu else None,
        "made": update.made,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--shape", choices=tuple(SHAPES), default="2b")
    parser.add_argument("--model", type=Path, help="a Hugging Face folder instead of the shape")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    ways: dict[str, Any] = {}
    for way in WAYS:
        try:
            ways[way] = measure(way, options)
        except (TrainerError, RuntimeError) as error:
            ways[way] = {"failed": " ".join(str(error).split())[:300]}
        print(json.dumps({way: ways[way]}), flush=True)
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()
        result = {
            "shape": str(options.model or options.shape),
            "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
            "rows": options.rows,
            "tokens": options.tokens,
            "kernels": {name: find_spec(name) is not None for name in KERNELS},
            "torch": torch.__version__,
            "ways": ways,
        }
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any("failed" in each for each in ways.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
