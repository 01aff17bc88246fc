"""What both providers share: keys, the reading of answers, and what errors of the SDKs mean."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from whale_core.chat_completions import Unreadable, checked_body, key_from
from whale_core.errors import InputError
from whale_core.records import Json, Spent
from whale_metaharness.proposers.conversation import CallError, ToolCall
from whale_metaharness.proposers.settings import AnthropicConfig, OpenAIConfig

NO_KEY = "none"  # the SDKs want one; an endpoint that needs none does not look at it
WORDS = 300  # characters of an endpoint's message that are passed on
LARGEST = 1 << 24  # characters of an answer: no model writes so much in one turn
PASSING = (408, 409, 429)  # of the 4xx: what another try may mend
ACCESS = (401, 402, 403, 404)
CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
REMEDY = {
    "access": "see the key in the variable that proposer.api_key_env names, proposer.model and "
    "proposer.base_url",
    "settings": "see proposer.max_tokens and proposer.extra; the model must be able to use tools",
    "reach": "is it running, is proposer.base_url right, is a quota used up?",
    "other": "choose another endpoint",
}


class Access:
    """The key of a provider, out of the environment, and how to keep it out of what is told."""

    def __init__(self, name: str, config: AnthropicConfig | OpenAIConfig) -> None:
        """Check what can be checked without asking.

        Raises:
            InputError: the model or the key is missing, or the SDK is not installed.
        """
        if not config.model:
            raise InputError(f"proposer.model: missing, name the model that {name} is to use")
        if find_spec(name) is None:
            raise InputError(
                f"the proposer {name} needs the {name} SDK, which is not installed: "
                f"pip install 'whale-metaharness[{name}]'"
            )
        self.key = key_from(config.api_key_env, "proposer")

    def error(self, error: Exception, sdk: ModuleType, seconds: float, spent: Spent) -> CallError:
        """Return what an exception means that the SDK or the network raised for a request."""
        if isinstance(error, CallError):
            return error
        if isinstance(error, Unreadable):
            return CallError(self._clean(str(error)), REMEDY["other"], again=True, spent=spent)
        if isinstance(error, sdk.APITimeoutError | TimeoutError):
            late = f"the endpoint gave no answer within {seconds:g} s"
            return CallError(late, REMEDY["reach"], again=True, spent=spent)
        if isinstance(error, sdk.APIStatusError) and error.status_code >= 400:
            return self._of_status(error, spent)
        if isinstance(error, sdk.APIConnectionError):
            cause = self._clean(str(error.__cause__ or error)) or type(error).__name__
            reason = f"the endpoint cannot be reached: {cause}"
            return CallError(reason, REMEDY["reach"], again=True, spent=spent)
        cause = self._clean(_said(error)) or type(error).__name__
        reason = f"the endpoint's answer broke off: {cause}"
        return CallError(reason, REMEDY["reach"], again=True, spent=spent)

    def _of_status(self, error: Any, spent: Spent) -> CallError:
        status: int = error.status_code
        reason = f"the endpoint answers {status}: {self._clean(_said(error))}"
        if status >= 500 or status in PASSING:
            wait = _seconds(error.response.headers.get("retry-after", ""))
            return CallError(reason, REMEDY["reach"], again=True, wait=wait, spent=spent)
        return CallError(reason, REMEDY["access" if status in ACCESS else "settings"], spent=spent)

    def _clean(self, text: str) -> str:
        """Return words without the key, on one line."""
        shown = text.replace(self.key, "***") if self.key else text
        return " ".join(shown.split())[:WORDS]


def read_json(text: str) -> Json:
    """Return JSON that can be sent and stored again: no lone surrogates, no NaN.

    Raises:
        Unreadable: it is none, or larger than any answer.
    """
    if len(text) > LARGEST:
        raise Unreadable(f"the endpoint's answer has {len(text)} characters: no model's turn has")
    try:
        return _storable(json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the endpoint's answer is not JSON: {text[:60]!r}") from error


def read_answer(text: str) -> dict[str, Json]:
    """Return an answer's JSON object, as ``read_json`` does. Raise ``Unreadable`` if it is none, or
    tells an error."""
    return checked_body(read_json(text))


def plain(event: Any) -> dict[str, Json]:
    """Return an event of a stream, as the SDK made it, as JSON that can be stored."""
    made = event if isinstance(event, dict) else event.to_dict(mode="json", warnings=False)
    return dict(_storable(made))


def tool_call(identifier: Json, name: Json, arguments: Json, known: set[str]) -> ToolCall:
    """Return a call as the loop takes it, from whatever a model or a server made of it.

    ``known`` are the ids of earlier calls of the turn; one that is missing, odd or taken is
    replaced.
    """
    own = identifier if isinstance(identifier, str) and CALL_ID.fullmatch(identifier) else ""
    if not own or own in known:
        own = f"call_{len(known)}_of_turn"
    known.add(own)
    called = name if isinstance(name, str) else ""
    problem = ""
    if isinstance(arguments, str):
        try:
            arguments = read_json(arguments or "{}")
        except Unreadable:
            problem = f"the arguments are not JSON: {str(arguments)[:80]!r}"
    if not problem and not isinstance(arguments, Mapping):
        problem = "the arguments are not a JSON object"
    return ToolCall(own, called, {} if problem else arguments, problem)


def _storable(value: Json) -> Json:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_storable(key): _storable(each) for key, each in value.items()}
        case list():
            return [_storable(each) for each in value]
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(constant)


def _said(error: Any) -> str:
    """Return the endpoint's own message where the SDK passes it on."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        told = inner.get("message") or inner.get("detail") if isinstance(inner, Mapping) else inner
        if told:
            return told if isinstance(told, str) else json.dumps(told)
    return body if isinstance(body, str) and body else str(error)


def _seconds(header: str) -> float:
    """Return the seconds in a ``Retry-After``; 0 for a date, which the usual waits must do for."""
    try:
        seconds = float(header)
    except ValueError:
        return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
