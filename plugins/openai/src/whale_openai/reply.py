"""What an endpoint answered, as a generation; its own counts are what is charged.

Providers differ in what they leave out or add. Text and counts must be there; what is missing else
is unknown, and said to be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from whale_core.chat_completions import (
    Prices,
    Unreadable,
    Usage,
    content_text,
    read_body,
    read_usage,
)
from whale_core.records import (
    UNKNOWN_TOKEN,
    Floats,
    Generation,
    GenerationRequest,
    Ids,
    Json,
    Spent,
)
from whale_openai.messages import call_text

FINISH = {
    "stop": "end",
    "eos_token": "end",
    "eos": "end",
    "stop_sequence": "end",
    "tool_calls": "end",
    "function_call": "end",
    "content_filter": "end",  # the rest is withheld; what there is counts
    "length": "length",
}


def read_reply(
    text: str, request: GenerationRequest, prices: Prices | None, token_ids: bool = False
) -> tuple[Generation, str]:
    """Return the generation in a response's body, and the model that the endpoint says it served.

    The generation's ``weights_id`` is left empty. Its text is what a harness is shown: content and
    tool calls, without reasoning, up to the first stop string. Its ids and log-probabilities are
    the endpoint's where it tells them for every token; else ids are unknown and log-probabilities
    0. Reasoning that is not shown is counted like all that was sampled.

    With ``token_ids`` nothing may be unknown, and nothing sampled after a stop string: what a
    training row says was sampled is then what the episode went on from.

    Raises:
        Unreadable: the body is no such answer.
    """
    body = read_body(text)
    usage = read_usage(body)
    spent = usage.spent(prices)
    try:
        choice = _choice(body)
        whole = _shown(choice["message"])
    except Unreadable as error:
        raise _paid(error, spent) from None
    finish = choice.get("finish_reason")
    shown, reason = _cut(whole, request.stop)
    if token_ids and (problem := _untrainable(body, choice, usage, request.stop, whole)):
        raise _paid(Unreadable(problem), spent)
    if reason is None:
        reason = FINISH.get(finish, str(finish)) if isinstance(finish, str) else str(finish)
    model = body.get("model")
    made = Generation(
        token_ids=_ids(choice.get("token_ids"), usage.sampled),
        logprobs=_logprobs(choice.get("logprobs"), usage.sampled),
        text=shown,
        finish_reason=reason,
        weights_id="",
        cached_tokens=usage.cached,
        prompt_ids=_ids(body.get("prompt_token_ids"), usage.prompt),
        usd=spent.usd,
    )
    return made, model if isinstance(model, str) else ""


def _paid(error: Unreadable, spent: Spent) -> Unreadable:
    error.spent = spent
    return error


def _untrainable(
    body: Mapping[str, Json],
    choice: Mapping[str, Json],
    usage: Usage,
    stop: Sequence[str],
    whole: str,
) -> str:
    """Return why an answer makes no training row; nothing when it does."""
    prompt, sampled = body.get("prompt_token_ids"), choice.get("token_ids")
    if not (_are_ids(prompt, usage.prompt) and _are_ids(sampled, usage.sampled)):
        return (
            "the endpoint's answer does not tell the ids of all tokens it counts "
            "(return_token_ids), which engine.token_ids=true needs"
        )
    if len(_told_logprobs(choice.get("logprobs"))) != usage.sampled:
        return (
            "the endpoint's answer does not tell the log-probability of every sampled token, which "
            "engine.token_ids=true needs"
        )
    shown, found = _cut(whole, stop)
    if shown != whole or (choice.get("stop_reason") in stop and not found):
        return (
            "the endpoint's answer does not end with the stop string that ended it "
            "(include_stop_str_in_output; or it stands in reasoning that is not shown), which "
            "engine.token_ids=true needs"
        )
    return ""


def _choice(body: Mapping[str, Json]) -> Mapping[str, Json]:
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping) or not isinstance(choice.get("message"), Mapping):
        raise Unreadable("the endpoint's answer has no message")
    return choice


def _shown(message: Mapping[str, Json]) -> str:
    """Return a message's text: content (null, text or parts), refusal, tool calls."""
    content = content_text(message.get("content")) or message.get("refusal")
    pieces = [content] if isinstance(content, str) and content else []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise Unreadable("the endpoint's answer has a tool call without a function")
        pieces.append(call_text(str(function.get("name")), _arguments(function.get("arguments"))))
    return "\n".join(pieces)


def _arguments(told: Json) -> Json:
    """Return a call's arguments as JSON; text that is none stays text."""
    if not isinstance(told, str):
        return told
    try:
        return json.loads(told)
    except (ValueError, RecursionError):
        return told


def _cut(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """Cut ``text`` after the first stop string in it; the reason is ``stop`` if there is one."""
    ends = [text.index(each) + len(each) for each in stop if each in text]
    return (text[: min(ends)], "stop") if ends else (text, None)


def _ids(told: Json, count: int) -> Ids:
    if _are_ids(told, count):
        return np.array(told, np.int32)
    return np.full(count, UNKNOWN_TOKEN, np.int32)


def _are_ids(told: Json, count: int) -> bool:
    whole = isinstance(told, list) and len(told) == count
    return whole and all(type(token) is int and 0 <= token < 1 << 31 for token in told)


def _logprobs(told: Json, count: int) -> Floats:
    """Return the log-probabilities; tokens of hidden reasoning come first and have none."""
    values = _told_logprobs(told)
    made = np.zeros(count, np.float32)
    if values and len(values) <= count:
        made[count - len(values) :] = values
    return made


def _told_logprobs(told: Json) -> list[float]:
    """Return the log-probabilities that are told; none where one of them is no number."""
    content = told.get("content") if isinstance(told, Mapping) else None
    values: list[float] = []
    for item in content if isinstance(content, list) else []:
        value = item.get("logprob") if isinstance(item, Mapping) else None
        if not isinstance(value, int | float) or isinstance(value, bool):
            return []
        values.append(value)
    return values
