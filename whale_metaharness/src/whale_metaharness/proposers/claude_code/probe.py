"""Whether key, model and address are right: one word asked of the model, before the run."""

from __future__ import annotations

import json
import time

from whale_core.chat_completions import Unreadable
from whale_core.errors import InputError
from whale_core.records import Spent
from whale_metaharness.proposers.anthropic import Usage, read_usage
from whale_metaharness.proposers.claude_code.requests import MESSAGES
from whale_metaharness.proposers.claude_code.upstream import TROUBLE, connect, post
from whale_metaharness.proposers.endpoint import ACCESS, PASSING, REMEDY, WORDS, read_answer
from whale_metaharness.proposers.settings import CachePrices, ClaudeCodeConfig

PROBE_TOKENS = 16
WAITS = (1.0, 4.0)  # seconds before the second and the third try
SECONDS = 60.0
HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01"}


def ask_for_a_word(config: ClaudeCodeConfig, key: str, prices: CachePrices) -> Spent:
    """Have the model say a word and return what that cost. Blocks.

    Raises:
        InputError: the endpoint cannot be reached, or refuses key or model.
    """
    for wait in (*WAITS, 0.0):
        reason, remedy, again, spent = _try(config, key, prices)
        if not reason:
            return spent
        if not (again and wait):
            break
        time.sleep(wait)
    told = " ".join(reason.replace(key, "***").split())[:WORDS]
    where = f"{config.base_url}, model {config.model}"
    raise InputError(f"proposer claude-code: {where}: {told}; {REMEDY[remedy]}")


def _try(config: ClaudeCodeConfig, key: str, prices: CachePrices) -> tuple[str, str, bool, Spent]:
    """Return what is wrong (empty if nothing is), the remedy, whether another try may help, and
    what was spent."""
    words = [{"role": "user", "content": "Say ok."}]
    asked = {"model": config.model, "max_tokens": PROBE_TOKENS, "messages": words}
    connection = connect(config.base_url, SECONDS)
    try:
        body = json.dumps(asked).encode()
        response = post(connection, config.base_url, key, MESSAGES, body, HEADERS)
        status, text = response.status, response.read().decode("utf-8", "replace")
    except TROUBLE as error:
        reason = f"the endpoint cannot be reached: {error or type(error).__name__}"
        return reason, "reach", True, Spent()
    finally:
        connection.close()
    try:
        told = read_answer(text)
        if status < 300:
            return "", "", False, read_usage(told.get("usage"), Usage()).spent(prices)
    except Unreadable as error:
        if status < 300:
            return str(error), "other", False, Spent()
        text = str(error)
    again = status >= 500 or status in PASSING
    remedy = "reach" if again else "access" if status in ACCESS else "settings"
    return f"the endpoint answers {status}: {text}", remedy, again, Spent()
