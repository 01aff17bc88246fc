"""Memory of one forward and backward pass with a large vocabulary: what logits cost.

    python benchmarks/trainer_memory.py [--vocabulary 248320] [--rows 2] [--tokens 256]

A made-up two-layer Llama (hidden size 64, tied embeddings, bfloat16) with the vocabulary of
Qwen3.5; the second half of each row is trained on. Compared, each in a forked process of its own:

    plain   the usual loop: logits of every position in float32, autograd
    ours    as ``rsft`` runs it: logits of trained positions, their gradient written down
    parts   the same with ``model_update.logits_at_once``
    layers  parts, and ``model_update.gradient_checkpointing``

Reported is the peak beyond what was held before the pass (parameters, float32 gradient buffers): of
resident memory on a CPU, of allocated memory with ``--device cuda``. The gradients must agree.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import time
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from whale_core.records import Row
from whale_rsft.gradients import backward, gradients_into
from whale_rsft.packing import pack_rows

WAYS = ("plain", "ours", "parts", "layers")
MIB = 1 << 20


def model(vocabulary: int, device: str) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    module = LlamaForCausalLM(config)
    module.to(dtype=torch.bfloat16, device=device)  # type: ignore[call-arg]
    return module.eval()


def rows(options: argparse.Namespace) -> list[Row]:
    draw = np.random.default_rng(0)
    mask = np.repeat([0, 1], [options.tokens - options.tokens // 2, options.tokens // 2])
    return [
        Row(
            draw.integers(0, options.vocabulary, options.tokens).astype(np.int32),
            mask.astype(np.uint8),
            np.zeros(options.tokens, np.float32),
            i,
        )
        for i in range(options.rows)
    ]


def plain(module: LlamaForCausalLM, batch: list[Row], tokens: int) -> None:
    device = next(module.parameters()).device
    ids = torch.tensor(np.stack([row.input_ids for row in batch]), dtype=torch.long, device=device)
    masks = torch.tensor(np.stack([row.loss_mask for row in batch]), dtype=torch.bool)
    labels = torch.where(masks.to(device), ids, -100)[:, 1:].flatten()
    logits = module(input_ids=ids, use_cache=False).logits[:, :-1].float().flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / tokens
    loss.backward()  # type: ignore[no-untyped-call]


def resident(kind: str) -> int:
    """Return this process's resident memory in bytes: ``VmRSS`` now, ``VmHWM`` at its peak."""
    found = re.search(rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def measure(way: str, options: argparse.Namespace) -> tuple[float, float, float]:
    """Return peak MiB, seconds and the gradient norm of one pass."""
    torch.set_num_threads(options.threads)
    module = model(options.vocabulary, options.device)
    parameters = dict(module.named_parameters())
    buffers = {name: torch.zeros_like(p, dtype=torch.float32) for name, p in parameters.items()}
    batch = rows(options)
    tokens = sum(int(row.loss_mask.sum()) for row in batch)
    on_gpu = options.device != "cpu"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = resident("VmRSS")
    started = time.perf_counter()
    with gradients_into(parameters, {name: each.add_ for name, each in buffers.items()}):
        if way == "plain":
            plain(module, batch, tokens)
        else:
            backward(
                module,
                pack_rows(batch, options.rows * options.tokens),
                tokens,
                checkpoint=way == "layers",
                logits_at_once=0 if way == "ours" else options.logits_at_once,
            )
    peak = (torch.cuda.max_memory_allocated() if on_gpu else resident("VmHWM")) - before
    seconds = time.perf_counter() - started
    norm = sum(float(each.double().square().sum()) for each in buffers.values()) ** 0.5
    return peak / MIB, seconds, norm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--vocabulary", type=int, default=248320)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--logits-at-once", type=int, default=32)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    print(
        f"{options.rows} rows of {options.tokens} tokens, half trained, vocabulary "
        f"{options.vocabulary}, {options.device}",
        flush=True,
    )
    most = 0.0
    for way in WAYS:
        with multiprocessing.get_context("fork").Pool(1) as pool:  # what it touches is its own
            mib, seconds, norm = pool.apply(measure, (way, options))
        most = most or mib
        print(
            f"{way:7s} {mib:7.0f} MiB  {mib / most:5.2f} of plain  {seconds:6.1f} s  "
            f"gradient norm {norm:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
