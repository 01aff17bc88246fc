"""Rollouts per second of the engine ``vllm``, and how long handing it new weights takes.

    python benchmarks/gpu_rollouts.py --output FILE                  on a GPU
    python benchmarks/gpu_rollouts.py --shape llama --device cpu --prompts 4 --output FILE

One server that the engine starts, on random weights of Qwen3.5-2B's shape (``qwen_shape.py``), of a
tiny Llama (``llama``), or those of ``--model FOLDER``. *Rollouts*: ``--prompts`` prompts of
``--length`` tokens, ``--group`` samples each, ``--tokens`` new tokens; end tokens are ignored, so
that every one is as long. The first batch warms the server up and is not timed. *Hand-over*: two
folders of different weights are loaded in turns, each with all checks (``engine.load``); of it,
``hash`` is reading the folder for its content hash. The folder's files are in the page cache, as
they are when a trainer has just written them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from qwen_shape import write

from whale_core.checkpoint import checkpoint_hash
from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.records import Generation, GenerationRequest, Sampling
from whale_vllm.config import Config
from whale_vllm.engine import VLLMEngine

HAND_OVERS = 5


def model_folder(options: argparse.Namespace, folder: Path) -> Path:
    """Return the folder of the model to serve."""
    if options.model:
        given: Path = options.model
        return given
    if options.shape == "llama":
        from whale_transformers.tiny import tiny_folder

        return tiny_folder()
    return write(options.shape, folder / "model", options.device)


def changed_folder(model: Path, target: Path) -> Path:
    """Write a copy of ``model`` whose embeddings are a little larger."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, target)
    for file in sorted(target.glob("*.safetensors")):
        state = load_file(file)
        for name in state:
            if name.endswith("embed_tokens.weight"):
                state[name] = state[name] * 1.25
        save_file(state, file, metadata={"format": "pt"})
    return target


def workload(options: argparse.Namespace, vocabulary: int, round_: int) -> list[GenerationRequest]:
    requests = []
    for prompt in range(options.prompts):
        draw = generator("gpu rollouts", round_, prompt)
        ids = draw.integers(3, vocabulary, options.length).astype(np.int32)
        for _ in range(options.group):
            requests.append(GenerationRequest(ids, options.tokens, (), Sampling(), draw.bytes(16)))
    return requests


async def rolled_out(engine: VLLMEngine, asked: list[GenerationRequest]) -> dict[str, Any]:
    """Time one batch. Raise ``AssertionError`` for a fault."""
    begun = time.perf_counter()
    made = await engine.generate(asked)
    seconds = time.perf_counter() - begun
    tokens = cached = 0
    for each in made:
        assert isinstance(each, Generation), each
        tokens += len(each.token_ids)
        cached += each.cached_tokens
    return {
        "rollouts": len(made),
        "seconds": round(seconds, 3),
        "rollouts_per_second": round(len(made) / seconds, 2),
        "sampled_tokens_per_second": round(tokens / seconds, 1),
        "cached_share_of_prompts": round(cached / sum(len(r.prompt_ids) for r in asked), 3),
    }


async def handed_over(engine: VLLMEngine, folders: list[Path], dtype: str) -> dict[str, Any]:
    """Time loadings of the folders in turns, and check that they change what is served."""
    whole, hashing, ids = [], [], []
    for i in range(HAND_OVERS):
        folder = folders[i % len(folders)]
        begun = time.perf_counter()
        ids.append(await engine.load(folder))
        whole.append(round(time.perf_counter() - begun, 3))
        begun = time.perf_counter()
        assert checkpoint_hash(folder, dtype) == ids[-1]
        hashing.append(time.perf_counter() - begun)
    assert ids[0] != ids[1] and ids[0] == ids[2]
    return {
        "seconds": whole,
        "median_seconds": statistics.median(whole),
        "hash_median_seconds": round(statistics.median(hashing), 3),
    }


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start the server, and time all of it."""
    model = model_folder(options, folder)
    other = changed_folder(model, folder / "changed")
    # A CPU build ends when a prompt with a seed is split over steps (docs/vllm.md).
    whole = ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "4096")
    more = ("--enforce-eager", *whole) if options.device == "cpu" else ()
    config = Config(
        model=str(model),
        dtype="bfloat16",
        max_context=options.length + options.tokens + 1,
        gpu_memory=0.1 if options.device == "cpu" else 0.8,
        arguments=more,
    )
    weights = sum(file.stat().st_size for file in model.glob("*.safetensors"))
    engine = VLLMEngine(config, Setup(0))
    engine._ends = []  # no token ends a reply
    engine.tokenizer.end_tokens = frozenset()
    try:
        begun = time.perf_counter()
        await engine.probe(Sampling())
        started = time.perf_counter() - begun
        await engine.generate(workload(options, engine.vocabulary, 0))
        rollouts = await rolled_out(engine, workload(options, engine.vocabulary, 1))
        print(json.dumps(rollouts), flush=True)
        hand_over = await handed_over(engine, [other, model], "bfloat16")
        print(json.dumps(hand_over), flush=True)
        return {
            "shape": str(options.model or options.shape),
            "device": options.device,
            "engine": dict(engine.facts()),
            "weights_mib": round(weights / 2**20),
            "start_seconds": round(started, 1),
            "rollouts": rollouts,
            "set_policy": hand_over,
        }
    finally:
        await engine.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--shape", choices=("2b", "tiny", "llama"), default="2b")
    parser.add_argument("--model", type=Path, help="a Hugging Face folder instead of the shape")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--length", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(measure(options, Path(folder)))
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
