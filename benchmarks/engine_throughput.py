"""Sampled tokens per second of the embedded engine beside ``transformers.generate``.

    python benchmarks/engine_throughput.py                      # the stated case, about 10 minutes
    python benchmarks/engine_throughput.py --prompts 8 --repeats 1   # a quick look

32 prompts of 300 tokens, G = 8 samples each, 32 new tokens, end tokens ignored, T = 1, top-k 20,
SmolLM2-135M-Instruct. ``transformers.generate`` runs the same module in the same process and dtype,
left-padded, in batches of 16 and of 64 (a part of the work is enough: its rate does not depend on
how many batches follow); its better batch size counts. Repeats are interleaved; medians are
printed, and the ratio. Rates per CPU second are printed too: on a shared machine they are the
steadier figures. The last line is the engine on prompts that share a long prefix (a system prompt
and a worked example), with nothing cached beforehand.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.records import GenerationRequest, Sampling
from whale_transformers.config import Config  # before torch: sets how its threads wait

# isort: split
import torch

from whale_transformers.engine import TransformersEngine

LENGTH = 300
SHARED = 200


@frozen
class Rate:
    """Sampled tokens per second of wall clock and of CPU."""

    wall: float
    cpu: float


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    asyncio.run(compare(options))


async def compare(options: argparse.Namespace) -> None:
    """Interleave the engine and the baselines, then print medians."""
    engine = TransformersEngine(
        Config(model=options.model, dtype=options.dtype, threads=options.threads), Setup(seed=0)
    )
    engine.tokenizer.end_tokens = frozenset()
    print(dict(engine.facts()))
    requests = workload(options, shared=0)
    prefixed = workload(options, shared=SHARED)
    names = ["engine", "generate, batch 16", "generate, batch 64", "engine, shared prefix"]
    rates: dict[str, list[Rate]] = {name: [] for name in names}
    await engine.generate(requests[:2])
    for _ in range(options.repeats):
        rates["engine"].append(await engine_rate(engine, requests))
        for batch in (16, 64):
            work = partial(generate_rate, requests=requests[:batch], options=options)
            rates[f"generate, batch {batch}"].append(await engine.borrow(work))
        rates["engine, shared prefix"].append(await engine_rate(engine, prefixed))
    await engine.close()
    wall = {name: statistics.median(r.wall for r in rates[name]) for name in names}
    cpu = {name: statistics.median(r.cpu for r in rates[name]) for name in names}
    for name in names:
        print(f"{name:24} {wall[name]:8.1f} tokens/s {cpu[name]:8.1f} tokens/CPU s")
    for unit, medians in (("second", wall), ("CPU second", cpu)):
        best = max(medians[name] for name in names if name.startswith("generate"))
        print(f"engine / generate, tokens per {unit}: {medians['engine'] / best:.2f}")


def workload(options: argparse.Namespace, shared: int) -> list[GenerationRequest]:
    """Return the requests; all prompts begin with the same ``shared`` tokens."""
    prefix = generator("benchmark", "prefix").integers(1000, 40_000, shared)
    requests = []
    for prompt in range(options.prompts):
        own = generator("benchmark", shared, prompt).integers(1000, 40_000, LENGTH - shared)
        ids = np.concatenate([prefix, own]).astype(np.int32)
        for draw in range(options.group):
            stream = prompt.to_bytes(8, "big") + draw.to_bytes(8, "big")
            requests.append(GenerationRequest(ids, options.tokens, (), Sampling(), stream))
    return requests


async def engine_rate(engine: TransformersEngine, requests: Sequence[GenerationRequest]) -> Rate:
    """Time the engine on ``requests`` with an empty cache."""
    await engine.refresh()
    started, cpu = time.perf_counter(), time.process_time()
    generations = await engine.generate(requests)
    count = sum(len(generation.token_ids) for generation in generations)
    return Rate(count / (time.perf_counter() - started), count / (time.process_time() - cpu))


def generate_rate(
    model: Any, requests: Sequence[GenerationRequest], options: argparse.Namespace
) -> Rate:
    """Time ``transformers.generate`` on one batch (all prompts are as long: no padding needed)."""
    ids = torch.from_numpy(np.stack([r.prompt_ids for r in requests])).long()
    started, cpu = time.perf_counter(), time.process_time()
    with torch.inference_mode():
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_k=20,
            min_new_tokens=options.tokens,
            max_new_tokens=options.tokens,
        )
    count = output[:, ids.shape[1] :].numel()
    return Rate(count / (time.perf_counter() - started), count / (time.process_time() - cpu))


if __name__ == "__main__":
    main()
