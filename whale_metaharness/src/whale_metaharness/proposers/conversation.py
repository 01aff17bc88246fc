"""What the agent loop and the providers of models say to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from whale_core.records import Json, Spent


@frozen
class ToolSpec:
    """A tool as the model is told of it; ``parameters`` maps names to JSON schemas."""

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Json]]
    required: tuple[str, ...]

    def schema(self) -> dict[str, Json]:
        """Return the JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {name: dict(each) for name, each in self.parameters.items()},
            "required": list(self.required),
        }


@frozen
class ToolCall:
    """A tool that the model wants used. ``problem`` says why its arguments cannot be read."""

    id: str
    name: str
    arguments: Mapping[str, Json]
    problem: str = ""


@frozen
class ToolResult:
    """What the model is told about the call ``id``."""

    id: str
    text: str
    error: bool = False


@frozen
class UserTurn:
    """What the model is told: the results of all calls of its last turn, and a text."""

    text: str = ""
    results: tuple[ToolResult, ...] = ()


@frozen
class ModelTurn:
    """What the model said, as its provider wants to hear it again."""

    content: Json


Turn = UserTurn | ModelTurn


@frozen
class Reply:
    """One turn of the model. ``stop`` is ``end``, ``calls``, ``length`` or ``refusal``."""

    turn: ModelTurn
    text: str
    calls: tuple[ToolCall, ...]
    stop: str


@frozen
class CallError(Exception):
    """Why a request was not answered, in one line; ``remedy`` says what its user may do.

    ``again``: another try may help, after ``wait`` seconds at least. ``spent`` is what it cost all
    the same, as far as the endpoint told.
    """

    reason: str
    remedy: str = ""
    again: bool = False
    wait: float = 0.0
    spent: Spent = field(factory=Spent)


class Provider(Protocol):
    """An endpoint that serves a model with tools. ``body`` and ``read`` depend on nothing else than
    their arguments and the settings: requests are recognised by their bodies."""

    @property
    def name(self) -> str:
        """What a user calls it."""
        ...

    @property
    def address(self) -> str:
        """Where it is, and the model's name there, in one line."""
        ...

    @property
    def priced(self) -> bool:
        """Whether it knows what calls cost in USD."""
        ...

    def body(
        self, system: str, turns: Sequence[Turn], tools: Sequence[ToolSpec], limit: int
    ) -> dict[str, Json]:
        """Return a request for at most ``limit`` sampled tokens, as JSON."""
        ...

    async def send(self, body: Mapping[str, Json], seconds: float) -> tuple[Json, Spent]:
        """Return the answer to a request, as JSON that ``read`` understands, and its cost.

        Raises:
            CallError: there is none within ``seconds``, or none that can be read.
        """
        ...

    def read(self, raw: Json) -> Reply:
        """Return what the model said. Raises ``ValueError`` if ``raw`` is no such answer."""
        ...

    async def close(self) -> None:
        """Close the connections. Idempotent; ``send`` opens them again."""
        ...
