"""Requests to ``/v1/completions`` and its answers: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whale_core.chat_tokenizer import TextTokenizer
from whale_core.records import Generation, GenerationRequest, Json
from whale_core.stop_strings import StopFinder

FLOOR = -9999.0  # vLLM writes no smaller number: there it stands for minus infinity
# Whatever a server has for defaults must not change what is sampled.
PLAIN: Mapping[str, Json] = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "min_p": 0.0,
    "min_tokens": 0,
}


class Unusable(ValueError):
    """An answer that cannot be what was sampled for the request, and why."""


def body_of(request: GenerationRequest, limit: int, ends: Sequence[int]) -> dict[str, Json]:
    """Return the fields of one request for at most ``limit`` tokens.

    The seed is 63 bits of the request's own random stream, so what is sampled depends on it alone.
    Each request is sent by itself: with ``n`` the server would make up the seeds of all but the
    first. What requests have in common, its prefix cache shares.
    """
    sampling = request.sampling
    greedy = sampling.temperature == 0.0
    return {
        **PLAIN,
        "prompt": request.prompt_ids.tolist(),
        "max_tokens": limit,
        "temperature": sampling.temperature,
        "top_k": 0 if greedy else sampling.top_k,
        "top_p": 1.0 if greedy else sampling.top_p,
        "seed": int.from_bytes(request.stream[:8]) >> 1,
        "stop": [text for text in request.stop if text],
        "include_stop_str_in_output": True,
        "stop_token_ids": list(ends),
        "ignore_eos": True,  # it is among the stop tokens if it ends a turn
        "logprobs": 0,  # the sampled token's alone
        "return_token_ids": True,
    }


def generation_of(
    answer: Mapping[str, Any],
    request: GenerationRequest,
    limit: int,
    tokenizer: TextTokenizer,
    vocabulary: int,
    weights_id: str,
) -> Generation:
    """Return what the server sampled. Raise ``Unusable`` for an answer that cannot be right.

    Why the generation ended is read from the tokens, not from the server's word for it.
    """
    choice = _only_choice(answer)
    if _integers(choice.get("prompt_token_ids")) != request.prompt_ids.tolist():
        raise Unusable("it consumed another prompt than it was sent")
    ids = _integers(choice.get("token_ids"))
    if not ids or len(ids) > limit:
        raise Unusable(f"{len(ids)} tokens where 1 to {limit} were asked for")
    if not all(0 <= index < vocabulary for index in ids):
        raise Unusable(f"token ids outside the vocabulary of {vocabulary}: another model?")
    told = choice.get("logprobs")
    logprobs = _floats(told.get("token_logprobs") if isinstance(told, Mapping) else None)
    if len(logprobs) != len(ids):
        raise Unusable(f"{len(logprobs)} log-probabilities for {len(ids)} tokens")
    ids, finish = _ended(ids, request, limit, tokenizer)
    return Generation(
        token_ids=np.array(ids, np.int32),
        logprobs=logprobs[: len(ids)],
        text=tokenizer.decode(ids[:-1] if finish == "end" else ids),
        finish_reason=finish,
        weights_id=weights_id,
        cached_tokens=_cached(answer, len(request.prompt_ids)),
    )


def scoring_body(token_ids: NDArray[np.int32]) -> dict[str, Json]:
    """Return the fields of a request that scores given tokens."""
    return {
        **PLAIN,
        "prompt": token_ids.tolist(),
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": 0,
        "return_token_ids": True,
    }


def scores_of(answer: Mapping[str, Any], token_ids: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the log-probability of each token but the first, at temperature 1.

    Raise ``Unusable`` for an answer that cannot be right.
    """
    told = _only_choice(answer).get("prompt_logprobs")
    if not isinstance(told, list) or len(told) != len(token_ids):
        raise Unusable("no log-probability for each token of the prompt")
    found = []
    for index, entry in zip(token_ids[1:].tolist(), told[1:], strict=True):
        one = entry.get(str(index)) if isinstance(entry, Mapping) else None
        if not isinstance(one, Mapping):
            raise Unusable("the log-probabilities are those of other tokens")
        found.append(one.get("logprob"))
    return _floats(found)


def _only_choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        raise Unusable("it holds no completion")
    if choices[0].get("finish_reason") not in ("stop", "length"):
        raise Unusable(f"it was given up ({str(choices[0].get('finish_reason'))[:40]})")
    return choices[0]


def _ended(
    ids: list[int], request: GenerationRequest, limit: int, tokenizer: TextTokenizer
) -> tuple[list[int], str]:
    """Return the tokens up to where the generation ends, and why it does.

    The server looks for stop strings in a text of its own, in which half a character, say, does not
    show yet: what it sampled after one is left out.
    """
    ends = tokenizer.end_tokens
    finish = "end" if ids[-1] in ends else "length"
    spoken = ids[:-1] if finish == "end" else ids
    if not ends.isdisjoint(spoken):
        raise Unusable("it goes on after a token that ends the turn")
    stops = StopFinder(request.stop, tokenizer.decode)
    for count, token in enumerate(spoken, 1):
        if stops.push(token):
            return ids[:count], "stop"
    if finish == "length" and len(ids) < limit:
        raise Unusable(f"it ended after {len(ids)} of {limit} tokens for no reason")
    return ids, finish


def _cached(answer: Mapping[str, Any], prompt: int) -> int:
    """Return how much of the prompt was cached, as far as the server tells it."""
    usage = answer.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, Mapping) else None
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    return min(cached, prompt) if isinstance(cached, int) and cached > 0 else 0


def _integers(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise Unusable("it tells no token ids: is it vLLM?")
    return value


def _floats(value: Any) -> NDArray[np.float32]:
    if not isinstance(value, list):
        raise Unusable("it tells no log-probabilities")
    known = [each if isinstance(each, int | float) else np.nan for each in value]
    found = np.array(known, np.float32)
    return np.where(found <= FLOOR, np.float32(-np.inf), found).astype(np.float32)
