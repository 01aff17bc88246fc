"""What the tests of the engine share: requests, and one batch of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from whale_core.keys import generator
from whale_core.records import GenerationRequest, Sampling
from whale_vllm.engine import VLLMEngine


def ask(
    stream: int, length: int = 20, max_tokens: int = 6, sampling: Sampling | None = None
) -> GenerationRequest:
    ids = generator("vllm test prompt").integers(3, 259, length).astype(np.int32)
    key = stream.to_bytes(16, "little")
    return GenerationRequest(ids, max_tokens, (), sampling or Sampling(), key)


def generate(engine: VLLMEngine, requests: Sequence[GenerationRequest]) -> list[Any]:
    return asyncio.run(engine.generate(requests))
