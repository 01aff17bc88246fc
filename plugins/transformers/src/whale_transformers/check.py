"""A quick trial at load: does the engine compute this model right, on this machine?

The engine runs any decoder whose module follows the usual plan. Whether one really does, and
whether this machine's kernels treat every row alike, is tried rather than assumed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from whale_core.errors import InputError
from whale_core.keys import generator
from whale_core.records import Generation, GenerationRequest, Sampling
from whale_transformers.decoding import Decoder

PROMPTS = (40, 70)  # tokens
SAMPLED = 2
TOLERANCE = {torch.float32: 1e-3}  # mean absolute difference of log-probabilities
HALF_TOLERANCE = 0.15


def check_served(name: str, model: Any, decoder: Decoder) -> None:
    """Raise ``InputError`` when samples depend on their company, or differ from the plain model."""
    requests = [_request(index, model.config.vocab_size) for index in range(len(PROMPTS))]
    alone = decoder.run(requests[:1], "")[0]
    decoder.forget()
    company = decoder.run(requests[::-1], "")[::-1]
    decoder.forget()
    if not identical(alone, company[0]):
        raise InputError(
            f"model {name}: on this machine its samples depend on the other sequences in the "
            "batch; try another dtype or threads=1"
        )
    difference = float(
        np.mean([_difference(model, r, g) for r, g in zip(requests, company, strict=True)])
    )
    tolerance = TOLERANCE.get(model.dtype, HALF_TOLERANCE)
    if not difference <= tolerance:
        raise InputError(
            f"model {name} ({model.config.model_type}): the transformers engine does not compute "
            f"it as the plain model does (log-probabilities differ by {difference:.2g}); "
            "use another engine"
        )


def identical(one: Generation, other: Generation) -> bool:
    """Return whether two generations have the same tokens and log-probabilities, bit for bit."""
    return (
        one.token_ids.tobytes() == other.token_ids.tobytes()
        and one.logprobs.tobytes() == other.logprobs.tobytes()
    )


def _request(index: int, vocabulary: int) -> GenerationRequest:
    ids = generator("check-served", index).integers(0, vocabulary, PROMPTS[index])
    return GenerationRequest(
        prompt_ids=ids.astype(np.int32),
        max_tokens=SAMPLED,
        stop=(),
        sampling=Sampling(),
        stream=index.to_bytes(16, "big"),
    )


def _difference(model: Any, request: GenerationRequest, generation: Generation) -> float:
    """Return how far the log-probabilities are from a plain forward pass, on average."""
    whole = np.concatenate([request.prompt_ids, generation.token_ids]).astype(np.int64)
    ids = torch.from_numpy(whole)[None].to(model.device)
    with torch.inference_mode():
        logits = model(ids, use_cache=False).logits[0, len(request.prompt_ids) - 1 : -1]
    plain = torch.log_softmax(logits.float(), dim=-1).cpu().numpy()
    own = np.take_along_axis(plain, generation.token_ids[:, None].astype(np.int64), axis=1)[:, 0]
    return float(np.abs(own - generation.logprobs).mean())
