"""One vLLM as the engine talks to it, whatever lies between: HTTP (``client``) or Ray
(``actors``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from whale_core.errors import EngineError, InputError
from whale_core.records import Json

# What vLLM says when it is started with --enable-sleep-mode on a CPU, say.
CANNOT_SLEEP = "Sleep mode is not supported"


@frozen
class Configuration:
    """Of vLLM's ``ModelConfig``, what the weights do not tell."""

    model: str  # as it was named: a folder, or a hub id
    dtype: str  # of the numbers it computes with: ``float32``
    sleeps: bool  # whether ``sleep`` frees memory: elsewhere it says nothing, and does nothing


class Replica(Protocol):
    """A running vLLM. What its methods ask for raises ``EngineError`` when it is not answered."""

    name: str
    """How errors name it."""

    async def healthy(self) -> bool:
        """Say whether it has started and calls itself healthy."""
        ...

    async def version(self) -> str:
        """Return the version of vLLM that runs there."""
        ...

    async def longest(self) -> int:
        """Return how many tokens a context may have there."""
        ...

    async def tokenize(self, text: str) -> list[int]:
        """Return the ids that its own tokenizer makes of ``text``, special tokens not added."""
        ...

    async def complete(self, body: Mapping[str, Json]) -> Mapping[str, Any]:
        """Return the answer to a request, as ``/v1/completions`` has both (``completions``)."""
        ...

    async def weight_version(self) -> str:
        """Return the name of the weights that are served, as it was last set."""
        ...

    async def set_weight_version(self, version: str) -> None:
        """Name the weights that are served."""
        ...

    async def checksums(self) -> Mapping[str, str]:
        """Return a digest of each tensor that it computes with."""
        ...

    async def pause(self) -> None:
        """Let requests under way come to their end and begin no other."""
        ...

    async def resume(self) -> None:
        """Begin requests again."""
        ...

    async def reload(self, folder: Path) -> None:
        """Have it read the weights in ``folder``."""
        ...

    async def forget(self) -> None:
        """Drop the cached keys and values of all prompts."""
        ...

    async def configuration(self) -> Configuration:
        """Return what it was started with."""
        ...

    async def sleep(self) -> None:
        """Let requests under way come to their end, and free the memory of weights and cache."""
        ...

    async def wake(self) -> None:
        """Take the memory again; the weights must be loaded before anything is asked."""
        ...

    def error(self, problem: str) -> EngineError:
        """Return the error that this one has ``problem``."""
        ...


class Pool(Protocol):
    """All replicas of an engine."""

    names: tuple[str, ...]
    """Of each, something to know it by."""
    ours: bool
    """Whether they were started here, and end with the engine."""

    def connect(self) -> list[Replica]:
        """Return the replicas, connected for the running event loop."""
        ...

    async def disconnect(self) -> None:
        """Close the connections of this event loop."""
        ...

    async def check_alive(self) -> None:
        """Raise ``EngineError`` for one that was started here and has ended, ``InputError`` if it
        ended because the settings cannot be met."""
        ...

    async def end(self, keep_logs: bool) -> None:
        """End those that were started here; their logs are kept for an error that names them."""
        ...


def cannot_sleep() -> InputError:
    """Return the error that vLLM cannot sleep where it runs."""
    return InputError(
        "engine.sleep=true: vLLM has no sleep mode on this platform (it needs GPUs): leave it out"
    )
