"""The records that pass between the parts: examples, calls, trajectories, verdicts, rows.

All are frozen. Token arrays are one-dimensional numpy arrays: ids ``int32[T]``, log-probabilities
``float32[T]``, masks ``uint8[T]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from whale_core.keys import DrawKey

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Json = Any

UNKNOWN_TOKEN = -1  # stands for a token that was counted, but whose id was not told


@frozen
class Example:
    """One task. ``content`` is private (it holds the reference); a harness only ever sees the view
    that the domain's environment makes of it. ``group`` names where it comes from (a game, an
    entity): no group may be in two splits. ``source`` names its benchmark where a split mixes
    several: a pair's score is then told for each, too."""

    id: str
    content: Mapping[str, Json]
    group: str
    source: str = ""


@frozen
class Sampling:
    """Decoding settings. Log-probabilities are the temperature-scaled, unfiltered policy's."""

    temperature: float = 1.0
    top_k: int = 20
    top_p: float = 1.0


@frozen
class GenerationRequest:
    """What an engine is asked for: continue ``prompt_ids`` by at most ``max_tokens`` tokens.

    An engine that ``TakesMessages`` gets ``messages`` and ``tools`` instead, and no prompt ids.

    Token ``t`` is drawn with ``uniforms(stream, t + 1)[t]``, so the result depends on this request
    and the weights alone, never on other requests. Generation ends after a token of the
    tokenizer's ``end_tokens``, or when the decoded text contains a string of ``stop``.
    """

    prompt_ids: Ids = field(eq=False)
    max_tokens: int
    stop: tuple[str, ...]
    sampling: Sampling
    stream: bytes
    messages: tuple[Message, ...] = ()
    tools: Json | None = None


@frozen
class Generation:
    """What the engine sampled. ``token_ids`` include the end-of-turn token when it was sampled;
    ``text`` is the decoded ids without it (a stop string is part of the text). There is at least
    one token, and as many as asked for when ``length`` ended it. A log-probability that is not
    finite says that the sample is none: the rollout is not scored.

    An endpoint that renders messages itself also tells ``prompt_ids``, what it consumed. Of ids it
    keeps to itself the number counts, as ``UNKNOWN_TOKEN`` each; a log-probability it keeps to
    itself is 0. It may sample nothing, and end for ``length`` where its own limit is lower."""

    token_ids: Ids = field(eq=False)
    logprobs: Floats = field(eq=False)
    text: str
    finish_reason: str  # "end" | "stop" | "length"
    weights_id: str
    cached_tokens: int = 0  # of the prompt, taken from the engine's cache
    prompt_ids: Ids | None = field(default=None, eq=False)
    usd: float = 0.0  # what the endpoint takes for it


@frozen
class Message:
    """One chat message as a harness sent it. ``call`` is the ordinal of the model call whose reply
    this message passes back, if it came with that reply's handle."""

    role: str  # "system" | "user" | "assistant" | "tool"
    content: str
    call: int | None = None


@frozen
class Call:
    """One model call of a trajectory: exactly what the engine consumed and produced."""

    prompt_ids: Ids = field(eq=False)
    token_ids: Ids = field(eq=False)
    logprobs: Floats = field(eq=False)
    text: str
    finish_reason: str
    weights_id: str
    messages: tuple[Message, ...] = ()
    cached_tokens: int = 0  # of the prompt, not computed again
    usd: float = 0.0
    rejected: bool = False  # the harness said that it could not use the reply


@frozen
class ToolEvent:
    """One environment call: the tool's name, the arguments, the result, and how many model calls
    had been made before it. ``error`` says why a call was refused; it then has no result."""

    name: str
    arguments: Mapping[str, Json]
    result: Json
    after_call: int
    error: str | None = None


class Outcome(StrEnum):
    """The three outcomes of a rollout. Not scored is an infrastructure fault: it never enters a
    mean or a training batch."""

    PASS = "pass"
    FAIL = "fail"
    NOT_SCORED = "not_scored"


@frozen
class Spent:
    """What model calls cost: how many, their tokens, and what an endpoint takes for them.

    ``malformed`` are the calls whose reply was paid for and said nothing that was asked for."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    sampled_tokens: int = 0
    usd: float = 0.0
    malformed: int = 0

    def __add__(self, other: Spent) -> Spent:
        """Return both together."""
        return Spent(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.sampled_tokens + other.sampled_tokens,
            self.usd + other.usd,
            self.malformed + other.malformed,
        )

    def __sub__(self, other: Spent) -> Spent:
        """Return this without ``other``, which is a part of it."""
        return Spent(
            self.calls - other.calls,
            self.prompt_tokens - other.prompt_tokens,
            self.cached_tokens - other.cached_tokens,
            self.sampled_tokens - other.sampled_tokens,
            self.usd - other.usd,
            self.malformed - other.malformed,
        )


@frozen
class Verdict:
    """A verifier's judgement. ``reward`` is in [0, 1]; ``parts`` are named partial facts, of which
    a pair's score shows the means; ``spent`` is what a judge took for it."""

    reward: float
    parts: Mapping[str, float] = field(factory=dict)
    spent: Spent = field(factory=Spent, eq=False)


@frozen
class NotScored:
    """A verifier's statement that it could not judge (a judge endpoint was down, say), and what
    trying cost."""

    reason: str
    spent: Spent = field(factory=Spent, eq=False)


@frozen
class Refusal:
    """Why a turn cannot be answered through the harness's own fault; the episode fails with it.

    ``spent`` is what it took to find that out.
    """

    reason: str
    spent: Spent = field(factory=Spent)


@frozen
class Fault:
    """Why a turn cannot be answered through no fault of the harness; the episode is not scored.

    ``spent`` is what the engine had done for the turn all the same.
    """

    reason: str
    spent: Spent = field(factory=Spent)


@frozen
class Trajectory:
    """One finished rollout.

    ``reason`` says why it failed before verification (``provenance``, ``calls``, ``tokens``,
    ``bytes``, ``cpu``, ``memory``, ``died``, ``stalled``, ``protocol``, ``context``,
    ``env calls``, ``error: …``) or why it was not scored (``engine: …``, ``environment: …``,
    ``verifier: …``, ``jail``, the reason that a verifier gave); it is None for an episode that ran
    to its end. ``record`` is the environment's own replayable account, from which the verifier
    judges.
    """

    example_id: str
    harness_id: str
    weights_id: str
    key: DrawKey
    calls: tuple[Call, ...]
    events: tuple[ToolEvent, ...]
    answer: str | None
    record: Mapping[str, Json]
    outcome: Outcome
    reason: str | None = None
    verdict: Verdict | None = None
    metrics: Mapping[str, float] = field(factory=dict)
    # What it cost is no part of what it is. ``spent_else``: on a failed first try, and on answers
    # that were none.
    spent_else: Spent = field(factory=Spent, eq=False)
    judging: Spent = field(factory=Spent, eq=False)  # what the verifier spent, on all tries
    cpu_seconds: float = field(default=0.0, eq=False)  # of the harness's processes
    seconds: float = field(default=0.0, eq=False)

    @property
    def answered(self) -> tuple[ToolEvent, ...]:
        """The events that the environment answered: those without the refused calls."""
        return tuple(event for event in self.events if event.error is None)

    @property
    def rejected_calls(self) -> frozenset[int]:
        """The ordinals of calls whose reply was of no use: the harness said so, or what it made of
        the reply the environment refused, and nothing else that it made of it."""
        said = {index for index, call in enumerate(self.calls) if call.rejected}
        refused = {event.after_call - 1 for event in self.events if event.error is not None}
        used = {event.after_call - 1 for event in self.answered}
        return frozenset(said | (refused - used) & set(range(len(self.calls))))

    @property
    def reward(self) -> float:
        """The verifier's reward; 0.0 for a rollout that failed before it."""
        return self.verdict.reward if self.verdict is not None else 0.0

    @property
    def sampled_tokens(self) -> int:
        """How many tokens the policy sampled in all calls."""
        return sum(len(call.token_ids) for call in self.calls)

    @property
    def spent(self) -> Spent:
        """What this rollout cost in all. Prompt tokens count in every call they are part of."""
        return self.spent_else + Spent(
            calls=len(self.calls),
            prompt_tokens=sum(len(call.prompt_ids) for call in self.calls),
            cached_tokens=sum(call.cached_tokens for call in self.calls),
            sampled_tokens=self.sampled_tokens,
            usd=sum(call.usd for call in self.calls),
        )


@frozen
class Replayed:
    """What came of a stored episode that was executed again on its recorded replies.

    ``differences`` are in words, none when all is as it was recorded. ``diverged`` is the first
    model call (from 0) that put other messages, and these.
    """

    trajectory: Trajectory
    differences: tuple[str, ...]
    diverged: tuple[int, tuple[Message, ...]] | None = None


@frozen
class Row:
    """A training row. ``loss_mask[t] == 1`` iff the policy sampled token ``t`` of this row."""

    input_ids: Ids = field(eq=False)
    loss_mask: npt.NDArray[np.uint8] = field(eq=False)
    logprobs: Floats = field(eq=False)
    trajectory: int
