"""Faults of the infrastructure: how they are named, and what an engine must not return.

A fault is nobody's success or failure. The rollout it ended is made again once and then not scored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whale_core.errors import WhaleError
from whale_core.records import UNKNOWN_TOKEN, Generation, GenerationRequest, Ids

FINISH_REASONS = ("end", "stop", "length")
ROUNDING = 1e-3  # how far above 0 a log-probability may lie: logit minus log-sum-exp in float32
REASON_LENGTH = 200


def reason_of(source: str, error: Exception) -> str:
    """Return one short line that says what failed in ``source`` (engine, verifier, …).

    The message of a ``WhaleError`` is meant for people; of any other the type is named too.
    """
    text = str(error) if isinstance(error, WhaleError) else f"{type(error).__name__}: {error}"
    return f"{source}: {' '.join(text.split())[:REASON_LENGTH]}"


def problem_of(made: Any, request: GenerationRequest, vocabulary: int) -> str | None:
    """Return why ``made`` cannot be what was sampled for ``request``; None when it can.

    ``vocabulary`` is what all token ids are below, 0 when that is not known. Checked are types,
    ids, log-probabilities (finite, and at most 0 but for ``ROUNDING``), finish reason, cached
    tokens, and the number of tokens: at least one, at most as many as asked for, and exactly so
    many when ``length`` ended it. An endpoint that was sent messages must tell how long the prompt
    was; its ids may be unknown, and how many tokens there are is its own affair.
    """
    if not isinstance(made, Generation):
        return f"a {type(made).__name__} in place of a generation"
    ids, logprobs = made.token_ids, made.logprobs
    if not _is_array(ids, "iu") or not _is_array(logprobs, "f"):
        return "token ids or log-probabilities are not arrays of integers and floats"
    by_messages = bool(request.messages)
    if by_messages != (made.prompt_ids is not None):
        return "it tells what the prompt was if, and only if, it was not given one"
    if by_messages and not _is_array(made.prompt_ids, "iu"):
        return "prompt ids are not an array of integers"
    if not by_messages and len(ids) == 0:
        return "no tokens"
    lowest = UNKNOWN_TOKEN if by_messages else 0
    if len(ids) and (ids.min() < lowest or (vocabulary and ids.max() >= vocabulary)):
        return f"token ids outside the vocabulary of {vocabulary or 'the model'}"
    if len(logprobs) != len(ids):
        return f"{len(logprobs)} log-probabilities for {len(ids)} tokens"
    if not np.isfinite(logprobs).all():
        return "log-probabilities are not finite: have the weights diverged?"
    if len(ids) and logprobs.max() > ROUNDING:
        return f"a log-probability of {logprobs.max():.3g}"
    if made.finish_reason not in FINISH_REASONS:
        return f"unknown finish reason {str(made.finish_reason)[:40]!r}"
    if cached_of(made, request) is None:
        prompt = len(prompt_of(made, request))
        return f"{str(made.cached_tokens)[:40]} cached of {prompt} prompt tokens"
    if not _is_text(made.text):
        return "the text is not valid Unicode"
    if by_messages:
        return None
    if len(ids) > request.max_tokens:
        return f"{len(ids)} tokens where at most {request.max_tokens} were asked for"
    if made.finish_reason == "length" and len(ids) < request.max_tokens:
        return f"too few tokens: cut off after {len(ids)} of {request.max_tokens}"
    return None


def prompt_of(made: Generation, request: GenerationRequest) -> Ids:
    """Return the prompt's ids: as given, or as an endpoint that was sent messages tells them."""
    return request.prompt_ids if made.prompt_ids is None else made.prompt_ids


def cached_of(made: Generation, request: GenerationRequest) -> int | None:
    """Return how many tokens of the prompt were cached; None when that is no such number."""
    cached: object = made.cached_tokens
    most = int(np.size(prompt_of(made, request)))
    whole = isinstance(cached, int | np.integer) and 0 <= cached <= most
    return int(made.cached_tokens) if whole else None


def _is_array(value: object, kinds: str) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in kinds


def _is_text(value: object) -> bool:
    """Say whether ``value`` is text that can be sent and written (no half surrogate pairs)."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
