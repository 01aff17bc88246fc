"""Tiny models, engines that lend theirs or do not, and rows, groups and a context made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig

from whale_core.keys import DrawKey
from whale_core.plugins import Setup
from whale_core.records import (
    Example,
    Floats,
    Generation,
    GenerationRequest,
    Ids,
    Json,
    Outcome,
    Row,
    Trajectory,
    Verdict,
)
from whale_core.roles import Group, Harness
from whale_rsft.places import logprobs
from whale_transformers.config import Config as EngineConfig
from whale_transformers.engine import TransformersEngine

VOCABULARY = 64


def tiny_llama(dtype: torch.dtype = torch.float32, tied: bool = True) -> LlamaForCausalLM:
    """Return the same two-layer model every time, parameters frozen as an engine keeps them."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = LlamaForCausalLM(config)
    model.to(dtype=dtype)  # type: ignore[call-arg]
    model.eval()
    model.requires_grad_(False)
    return model


class LendingEngine:
    """The part of an engine that a trainer meets: lends its module on a thread of its own."""

    def __init__(self, module: LlamaForCausalLM) -> None:
        self.module = module
        self.refreshed = 0
        self._thread = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))

    async def borrow(self, work: Callable[[Any], Any]) -> Any:
        """Run ``work`` on the engine's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self.module)

    async def refresh(self) -> str:
        """Count the calls."""
        self.refreshed += 1
        return f"weights-{self.refreshed}"

    def values(self) -> dict[str, torch.Tensor]:
        """Return a copy of the served parameters."""
        return {name: p.detach().clone() for name, p in self.module.named_parameters()}


class Context:
    """A phase's context that hands out prepared groups, one list a step, and counts the calls."""

    def __init__(self, engine: Any, batches: Sequence[list[Group]], next_step: int = 1) -> None:
        self.engine = engine
        self.harness = Harness("h0", "")
        self.seed = 0
        self.next_step = next_step
        self.asked: list[tuple[int, int, int]] = []
        self.mixtures: list[Sequence[Harness] | None] = []
        self._batches = list(batches)

    def next_prompts(self, count: int) -> list[Example]:
        """Return ``count`` made-up prompts."""
        return [Example(f"p{i}", {}, f"g{i}") for i in range(count)]

    def best_harnesses(self, count: int) -> list[Harness]:
        """Return three made-up harnesses, or fewer."""
        return [self.harness, Harness("h1", ""), Harness("h2", "")][:count]

    async def rollout(
        self,
        prompts: Sequence[Example],
        group_size: int,
        step: int,
        harnesses: Sequence[Harness] | None = None,
    ) -> list[Group]:
        """Return the next prepared groups."""
        self.asked.append((len(prompts), group_size, step))
        self.mixtures.append(harnesses)
        return self._batches.pop(0)


def row(ids: Sequence[int] | Ids, mask: Sequence[int], trajectory: int = 0) -> Row:
    """Return a row; its sampling log-probabilities are zero."""
    return Row(
        np.array(ids, np.int32),
        np.array(mask, np.uint8),
        np.zeros(len(ids), np.float32),
        trajectory,
    )


def rollout(reward: float | None, draw: int = 0, outcome: Outcome | None = None) -> Trajectory:
    """Return a trajectory with that reward; None: it failed before verification."""
    verdict = None if reward is None else Verdict(reward)
    return Trajectory(
        example_id="p0",
        harness_id="h0",
        weights_id="w0",
        key=DrawKey(0, "train", 1, 1, "p0", draw),
        calls=(),
        events=(),
        answer=None,
        record={},
        outcome=outcome or (Outcome.PASS if reward else Outcome.FAIL),
        verdict=verdict,
    )


def group(rewards: Sequence[float | None], seed: int = 0) -> Group:
    """Return the rollouts of one prompt: a shared prompt, and a few sampled tokens each."""
    draw = np.random.default_rng(seed)
    prompt = draw.integers(0, VOCABULARY, 9).tolist()
    rows = []
    for i, _ in enumerate(rewards):
        sampled = draw.integers(0, VOCABULARY, 2 + i % 3).tolist()
        rows.append((row(prompt + sampled, [0] * 9 + [1] * len(sampled), i),))
    trajectories = tuple(rollout(reward, i) for i, reward in enumerate(rewards))
    return Group(Example("p0", {}, "g0"), trajectories, tuple(rows))


class RemoteEngine:
    """A real engine behind a wall: what it serves can be loaded, saved and asked, not borrowed.

    ``loads`` counts; ``deaf`` makes it say that it loaded what it did not.
    """

    def __init__(self, inner: TransformersEngine) -> None:
        self.inner = inner
        self.tokenizer = inner.tokenizer
        self.max_context = inner.max_context
        self.vocabulary = inner.vocabulary
        self.loads: list[Path | None] = []
        self.deaf = False

    def facts(self) -> Mapping[str, Json]:
        """What the inner engine says."""
        return self.inner.facts()

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Have the inner engine generate."""
        return await self.inner.generate(requests)

    async def weights_id(self) -> str:
        """Name the weights that are served."""
        return await self.inner.weights_id()

    async def load(self, path: Path | None) -> str:
        """Load a folder, or only say so."""
        self.loads.append(path)
        return await (self.inner.weights_id() if self.deaf else self.inner.load(path))

    async def save(self, path: Path) -> str:
        """Write the served weights."""
        return await self.inner.save(path)

    async def forget(self) -> None:
        """Drop cached prompts."""
        await self.inner.forget()

    async def close(self) -> None:
        """Close the inner engine."""
        await self.inner.close()

    async def logprobs(self, token_ids: Ids) -> Floats:
        """Score tokens with a plain forward pass on the inner engine's thread."""
        return await self.inner.borrow(lambda module: logprobs(module, token_ids))


def tiny_engine(dtype: str = "float32") -> TransformersEngine:
    """Return a real engine with the tiny random model."""
    return TransformersEngine(
        EngineConfig(model="tiny-random", dtype=dtype, threads=1, slots=8), Setup(seed=0)
    )


def tiny_hybrid() -> Qwen3_5ForCausalLM:
    """Return the same small model every time: linear attention, then full attention."""
    config = Qwen3_5TextConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        max_position_embeddings=128,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = Qwen3_5ForCausalLM(config)
    model.eval()
    model.requires_grad_(False)
    return model
