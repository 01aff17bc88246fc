"""Whose fault it is that a request was not answered, and in which words that is said."""

from __future__ import annotations

import json
from enum import Enum

import openai
from attrs import field, frozen

from whale_core.records import Spent

WORDS = 300  # characters of an endpoint's message that are passed on
ITS_OWN = (401, 402, 404, 408, 409, 429)  # of the 4xx: key, account, model, time, rate
CONTEXT = "context"  # the reason for a prompt that does not fit
CONTEXT_WORDS = ("context length", "context window", "maximum context", "context size")


class Kind(Enum):
    """What a request was not answered for."""

    UNSENDABLE = "unsendable"  # it is no request that any endpoint takes
    REFUSED = "refused"  # the endpoint does not take this request
    DENIED = "denied"  # it does not take any of ours: key, account, model, address
    FAILED = "failed"  # it could not answer just now
    UNUSABLE = "unusable"  # it answers, but not in a way that can be worked with


@frozen
class Failure:
    """Why there is no generation, in one line."""

    kind: Kind
    reason: str
    spent: Spent = field(factory=Spent)


def of_status(error: openai.APIStatusError) -> Failure:
    """Return what an HTTP error status means."""
    status, said = error.status_code, _said(error)
    if status >= 500 or status in (408, 409, 429):
        kind = Kind.FAILED
    else:
        kind = Kind.DENIED if status in ITS_OWN else Kind.REFUSED
    if kind is Kind.REFUSED and (
        error.code == "context_length_exceeded"
        or any(words in said.lower() for words in CONTEXT_WORDS)
    ):
        return Failure(kind, CONTEXT)
    return Failure(kind, f"the endpoint answers {status}: {said}")


def of_error(error: Exception, seconds: float) -> Failure:
    """Return what an error without a status means: no connection, no answer in time."""
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return Failure(Kind.FAILED, f"the endpoint gave no answer within {seconds:g} s")
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        return Failure(Kind.FAILED, f"the endpoint cannot be reached: {_line(cause or error)}")
    return Failure(Kind.UNUSABLE, _line(error))


def _said(error: openai.APIStatusError) -> str:
    """Return the endpoint's own message."""
    body = error.body
    told = (body.get("message") or body.get("detail")) if isinstance(body, dict) else body
    text = told if isinstance(told, str) else json.dumps(told) if told else ""
    return " ".join(text.split())[:WORDS] or _line(error)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:WORDS]
    return text or type(error).__name__
