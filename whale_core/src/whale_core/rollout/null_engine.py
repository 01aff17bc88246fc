"""The engine ``null-model``: no model, but one of the domain's null models, through the harness.

A run with it says what a harness scores by itself: the floor that other conditions stand on. The
gate of a search asks the same of single candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from whale_core.byte_tokenizer import ByteTokenizer
from whale_core.errors import EngineError, InputError
from whale_core.plugins import Setup
from whale_core.plugins.suggest import did_you_mean
from whale_core.records import Generation, GenerationRequest, Json
from whale_core.roles import NullModel


@frozen
class NullEngineConfig:
    """Which null model answers."""

    model: str = ""
    """A null model of the domain by its name; empty for its first, random well-formed replies."""


class NullEngine:
    """Implements ``RolloutEngine`` and ``PlaysNullModel``: there are no weights."""

    max_context = 1 << 30
    vocabulary = 0

    def __init__(self, config: NullEngineConfig, setup: Setup) -> None:
        """Raises ``InputError`` where the domain has no such null model."""
        nulls = {} if setup.domain is None else {n.name: n for n in setup.domain.null_models}
        if not nulls:
            raise InputError("engine=null-model: the domain has no null models")
        name = config.model or next(iter(nulls))
        if name not in nulls:
            raise InputError(
                f"engine.model: no null model of the domain is called {name!r}"
                f"{did_you_mean(name, nulls)}"
            )
        self.null_model: NullModel = nulls[name]
        self.tokenizer = ByteTokenizer()

    def facts(self) -> Mapping[str, Json]:
        """Return which null model answers."""
        return {"engine": "null-model", "null_model": self.null_model.name}

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Raise ``EngineError``: a null model reads the task, not a prompt."""
        raise EngineError("the engine null-model serves no model: it cannot continue a prompt")

    async def weights_id(self) -> str:
        """Return a name that no weights can have."""
        return f"null:{self.null_model.name}"

    async def load(self, path: Path | None) -> str:
        """Return the same name. Raises ``InputError`` for a checkpoint: there is no model."""
        if path is not None:
            raise InputError(f"engine=null-model has no weights to load from {path}")
        return await self.weights_id()

    async def save(self, path: Path) -> str:
        """Raise ``EngineError``: there are no weights."""
        raise EngineError("the engine null-model has no weights to save")

    async def forget(self) -> None:
        """Nothing is cached."""

    async def close(self) -> None:
        """There is nothing to free."""
