"""What the engine tests share: requests, and the plain model's log-probabilities."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from whale_core.keys import generator
from whale_core.records import Floats, Generation, GenerationRequest, Sampling
from whale_transformers.engine import TransformersEngine


def prompt(name: str | int, length: int, prefix: int = 0, vocabulary: int = 259) -> np.ndarray:
    """Return ``length`` token ids; prompts with equal ``prefix`` begin alike that far."""
    ids = generator("test prompt", name).integers(3, vocabulary, length)
    common = generator("test prompt").integers(3, vocabulary, prefix)[:length]
    ids[: len(common)] = common
    return ids.astype(np.int32)


def ask(
    prompt_ids: Sequence[int] | np.ndarray,
    max_tokens: int = 8,
    stop: Sequence[str] = (),
    sampling: Sampling | None = None,
    stream: int = 0,
) -> GenerationRequest:
    """Return a request with defaults that suit tests."""
    return GenerationRequest(
        prompt_ids=np.asarray(prompt_ids, dtype=np.int32),
        max_tokens=max_tokens,
        stop=tuple(stop),
        sampling=sampling or Sampling(),
        stream=stream.to_bytes(16, "big"),
    )


def generate(
    engine: TransformersEngine, requests: Sequence[GenerationRequest], cold: bool = False
) -> list[Generation]:
    """Run one batch; ``cold`` empties the prompt cache before."""

    async def work() -> list[Generation]:
        if cold:
            await engine.refresh()
        return await engine.generate(requests)

    return asyncio.run(work())


def plain_logprobs(
    engine: TransformersEngine,
    requests: Sequence[GenerationRequest],
    generations: Sequence[Generation],
    dtype: torch.dtype | None = None,
) -> Floats:
    """Return the sampled tokens' log-probabilities by the plain model (a copy in ``dtype``)."""

    def work(module: Any) -> Floats:
        model = module if dtype is None else copy.deepcopy(module).to(dtype)
        assert model.config._attn_implementation == "sdpa"
        parts = []
        for request, generation in zip(requests, generations, strict=True):
            ids = np.concatenate([request.prompt_ids, generation.token_ids]).astype(np.int64)
            with torch.no_grad():
                logits = model(torch.from_numpy(ids)[None]).logits[0].float()
            scaled = logits / request.sampling.temperature
            rows = torch.log_softmax(scaled, dim=-1)[len(request.prompt_ids) - 1 : -1]
            parts.append(rows.gather(1, torch.from_numpy(ids[len(request.prompt_ids) :, None])))
        return torch.cat(parts)[:, 0].numpy()

    return asyncio.run(engine.borrow(work))
