"""Policies in an engine's place: replies that were recorded, and replies that a person writes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
from attrs import evolve

from whale_core.records import Call, Fault, Message, Outcome, Refusal, Trajectory
from whale_core.rollout.policy import Reply, Turn

NO_REPLY = "no recorded reply"
HARNESS_ERROR = re.compile(r"error: [\w.]+: ")  # as the jail reports an exception


class RecordedPolicy:
    """Answers one episode with the replies of a stored one, as long as it asks what was asked then.

    ``diverged`` is the first turn's number (from 0) that was another, with what it asked; then the
    episode ends, since nobody knows what the model would have said. With ``goes_on`` it gets the
    recorded replies all the same, as many as there are: enough to see what a harness makes of them.
    """

    def __init__(self, recorded: Trajectory, goes_on: bool = False) -> None:
        self._recorded = recorded
        self._goes_on = goes_on
        self.diverged: tuple[int, tuple[Message, ...]] | None = None

    async def weights_id(self) -> str:
        """Return the weights that the recorded replies are from."""
        return self._recorded.weights_id

    async def forget(self) -> None:
        """Nothing is cached."""

    async def reply(self, turns: Sequence[Turn]) -> list[Reply]:
        """Return the recorded reply to each turn, or why there is none."""
        return [self._reply(turn) for turn in turns]

    def _reply(self, turn: Turn) -> Reply:
        number = len(turn.calls)
        calls = self._recorded.calls
        if number < len(calls) and calls[number].messages == turn.messages:
            return evolve(calls[number], rejected=False)  # that is for the harness to say again
        reason = self._recorded.reason
        if number == len(calls) and reason is not None and self.diverged is None:
            if self._recorded.outcome is Outcome.NOT_SCORED:
                return Fault(reason)  # the infrastructure's, met again
            if reason == "context" or (
                reason.startswith("error: ") and not HARNESS_ERROR.match(reason)
            ):
                return Refusal(reason)  # this turn was put to the model, and did not suit it
        if self.diverged is None:
            self.diverged = number, turn.messages
        if self._goes_on and number < len(calls):
            return evolve(calls[number], messages=turn.messages, rejected=False)
        return Refusal(NO_REPLY)


class HandPolicy:
    """A person in the model's place. ``ask`` returns the next reply, None when there is none left.

    Stop strings hold as they do for a model. Tokens are not counted, since there is no tokenizer:
    a reply is taken whole. Answers and moves must be spans of these replies all the same.
    """

    name = "hand"

    def __init__(self, ask: Callable[[Turn], Awaitable[str | None]]) -> None:
        self._ask = ask

    async def weights_id(self) -> str:
        """Return a name no weights can have."""
        return self.name

    async def forget(self) -> None:
        """Nothing is cached."""

    async def reply(self, turns: Sequence[Turn]) -> list[Reply]:
        """Ask for one reply per turn."""
        return [await self._reply(turn) for turn in turns]

    async def _reply(self, turn: Turn) -> Reply:
        text = await self._ask(turn)
        if text is None:
            return Refusal("no reply left")
        ends = [text.index(stop) + len(stop) for stop in turn.stop if stop in text]
        call = Call(
            prompt_ids=np.empty(0, np.int32),
            token_ids=np.empty(0, np.int32),
            logprobs=np.empty(0, np.float32),
            text=text,
            finish_reason="end",
            weights_id=self.name,
            messages=turn.messages,
        )
        return evolve(call, text=text[: min(ends)], finish_reason="stop") if ends else call
