"""What prefix-tree packing saves in a weight step: forward and backward on a 135M Llama.

    python benchmarks/trainer_packing.py [--prompts 4] [--accepted 4] [--repeats 2]

Made-up rows of the demo's size: prompts of 300 tokens, the first 150 common to all (system prompt
and worked example), ``accepted`` rows of 12 sampled tokens each; random weights in the shape of
SmolLM2-135M. Compared, interleaved, on the same rows:

    plain   the usual loop: right-padded batches of 8 rows, logits of every position, autograd
    rows    ours with one row per pack
    packed  ours, as ``rsft`` runs it

CPU seconds of the process are the measure (wall seconds beside them suffer from neighbours); the
losses must agree, and so must the gradients (relative difference from ``plain``; bfloat16 rounds
each way of summing differently, ``--dtype float32`` shows that nothing else differs).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from whale_core.records import Row
from whale_rsft.config import Config
from whale_rsft.gradients import backward, gradients_into
from whale_rsft.packing import pack_rows

VOCABULARY, PROMPT, COMMON, SAMPLED = 49152, 300, 150, 12


def model(dtype: torch.dtype) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    module = LlamaForCausalLM(config)
    module.to(dtype=dtype)  # type: ignore[call-arg]
    module.eval()
    return module


def rows(prompts: int, accepted: int) -> list[Row]:
    draw = np.random.default_rng(0)
    common = draw.integers(0, VOCABULARY, COMMON)
    mask = np.repeat([0, 1], [PROMPT, SAMPLED]).astype(np.uint8)
    result = []
    for _ in range(prompts):
        prompt = np.concatenate([common, draw.integers(0, VOCABULARY, PROMPT - COMMON)])
        for i in range(accepted):
            ids = np.concatenate([prompt, draw.integers(0, VOCABULARY, SAMPLED)])
            result.append(Row(ids.astype(np.int32), mask, np.zeros(len(ids), np.float32), i))
    return result


def plain(module: LlamaForCausalLM, batch: Sequence[Row], tokens: int) -> float:
    total = 0.0
    for start in range(0, len(batch), 8):
        some = batch[start : start + 8]
        ids = torch.tensor(np.stack([row.input_ids for row in some]), dtype=torch.long)
        masks = torch.tensor(np.stack([row.loss_mask for row in some]), dtype=torch.bool)
        labels = torch.where(masks, ids, -100)[:, 1:].flatten()
        logits = module(input_ids=ids, use_cache=False).logits[:, :-1].float().flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / tokens
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    return total


def ours(budget: int, module: LlamaForCausalLM, batch: Sequence[Row], tokens: int) -> float:
    return backward(module, pack_rows(batch, budget), tokens).nll / tokens


def relative_difference(left: dict[str, Tensor], right: dict[str, Tensor]) -> float:
    difference = sum(float((left[name] - right[name]).double().square().sum()) for name in right)
    return float(
        (difference / sum(float(t.double().square().sum()) for t in right.values())) ** 0.5
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--accepted", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--micro-tokens", type=int, default=Config().micro_tokens)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    module = model(getattr(torch, options.dtype))
    parameters = dict(module.named_parameters())
    batch = rows(options.prompts, options.accepted)
    tokens = sum(int(row.loss_mask.sum()) for row in batch)
    packed = sum(len(pack.input_ids) for pack in pack_rows(batch, options.micro_tokens))
    row_tokens = sum(len(row.input_ids) for row in batch)
    print(f"{len(batch)} rows, {row_tokens} tokens, {tokens} trained; packed {packed}")

    ways: dict[str, Callable[[LlamaForCausalLM, Sequence[Row], int], float]] = {
        "plain": plain,
        "rows": partial(ours, 0),
        "packed": partial(ours, options.micro_tokens),
    }
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    wall: dict[str, list[float]] = {name: [] for name in ways}
    gradients: dict[str, dict[str, Tensor]] = {}
    losses: dict[str, float] = {}
    for _ in range(options.repeats):
        for name, way in ways.items():
            buffers = {
                key: torch.zeros_like(p, dtype=torch.float32) for key, p in parameters.items()
            }
            started, cpu_started = time.perf_counter(), time.process_time()
            with gradients_into(parameters, {key: each.add_ for key, each in buffers.items()}):
                losses[name] = way(module, batch, tokens)
            cpu[name].append(time.process_time() - cpu_started)
            wall[name].append(time.perf_counter() - started)
            gradients[name] = buffers

    for name in ways:
        seconds, ratio = min(cpu[name]), min(cpu["plain"]) / min(cpu[name])
        difference = relative_difference(gradients[name], gradients["plain"])
        print(
            f"{name:7s} cpu {seconds:6.1f} s  wall {min(wall[name]):6.1f} s  {ratio:5.2f} x plain  "
            f"{row_tokens / seconds:6.0f} row tokens per CPU second  "
            f"loss {losses[name]:.4f}  gradient difference {difference:.1e}"
        )


if __name__ == "__main__":
    main()
