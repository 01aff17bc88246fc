"""One request to the judge's endpoint through the official SDK, and what a failure means."""

from __future__ import annotations

import json
import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from attrs import frozen

from whale_core.chat_completions import Unreadable, key_from
from whale_core.errors import InputError
from whale_searchqa.judge.config import JudgeConfig
from whale_searchqa.judge.reply import Reply, read_reply

if TYPE_CHECKING:
    import openai

NO_KEY = "none"  # the SDK wants one; an endpoint that needs none does not look at it
WORDS = 300  # characters of an endpoint's message that are passed on
PASSING = (408, 409, 429)  # of the 4xx: what another try may mend
ACCESS = (
    "see the key in the variable that verifier.api_key_env names, verifier.model and "
    "verifier.base_url (it often ends in /v1)"
)
SETTINGS = "see verifier.model, verifier.limit_field and verifier.extra"
REACH = "is it running, is verifier.base_url right, is a quota used up?"
OTHER = "choose another endpoint"


@frozen
class Failure:
    """Why there is no verdict, in one line; whether another try may help, and after how many
    seconds the endpoint wants to hear of it."""

    reason: str
    remedy: str
    again: bool = False
    wait: float = 0.0


class Endpoint:
    """Knows address, model, key and settings; clients are made for one event loop each."""

    def __init__(self, config: JudgeConfig) -> None:
        """Take the key from the environment.

        Raises:
            InputError: the model or the key is missing, or the SDK is not installed.
        """
        if not config.model:
            raise InputError(
                "verifier.model: missing, name the model that judges (published: gpt-5.4-mini)"
            )
        if find_spec("openai") is None:
            raise InputError(
                "the verifier llm-judge needs the openai SDK, which is not installed: "
                "pip install 'whale-searchqa[judge]'"
            )
        self._config = config
        self._key = key_from(config.api_key_env, "verifier")

    def connect(self) -> openai.AsyncOpenAI:
        """Return a client for the running event loop. It makes one try of a request only."""
        import openai

        return openai.AsyncOpenAI(
            api_key=self._key or NO_KEY,
            base_url=self._config.base_url,
            timeout=self._config.deadline,
            max_retries=0,
        )

    async def ask(self, client: openai.AsyncOpenAI, prompt: str) -> Reply | Failure:
        """Put one message to the judge; never raises but when it is cancelled."""
        import openai

        config = self._config
        body: dict[str, Any] = {**config.extra, config.limit_field: config.max_tokens}
        try:
            raw = await client.chat.completions.with_raw_response.create(
                model=config.model,
                messages=[{"role": "user", "content": prompt}],
                temperature=0.0,
                extra_body=body,
            )
            return read_reply(raw.text, config.prices)
        except Unreadable as error:
            return Failure(self._clean(str(error)), OTHER)
        except openai.APIStatusError as error:
            return self._of_status(error)
        except openai.APITimeoutError:
            return Failure(f"the endpoint gave no answer within {config.deadline:g} s", REACH)
        except openai.APIConnectionError as error:
            cause = self._clean(str(error.__cause__ or error)) or type(error).__name__
            return Failure(f"the endpoint cannot be reached: {cause}", REACH, again=True)
        except Exception as error:  # whatever the SDK or the network make of an answer
            return Failure(self._clean(str(error)) or type(error).__name__, OTHER)

    def _of_status(self, error: openai.APIStatusError) -> Failure:
        status = error.status_code
        told = error.body
        if isinstance(told, dict):
            told = told.get("message") or told.get("detail")
        text = told if isinstance(told, str) else json.dumps(told) if told else str(error)
        reason = f"the endpoint answers {status}: {self._clean(text)}"
        if status >= 500 or status in PASSING:
            wait = _seconds(error.response.headers.get("retry-after", ""))
            return Failure(reason, REACH, again=True, wait=wait)
        return Failure(reason, ACCESS if status in (401, 402, 403, 404) else SETTINGS)

    def _clean(self, text: str) -> str:
        """Return an endpoint's words without the key, on one line."""
        shown = text.replace(self._key, "***") if self._key else text
        return " ".join(shown.split())[:WORDS]


def _seconds(header: str) -> float:
    """Return the seconds in a ``Retry-After``; 0 for a date, which the usual waits must do for."""
    try:
        seconds = float(header)
    except ValueError:
        return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
