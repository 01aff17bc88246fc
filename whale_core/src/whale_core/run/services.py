"""What parts hold open and depend on: asked for before anything is spent, closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Protocol

from whale_core.records import Sampling, Spent
from whale_core.roles import Closes, Domain, Probes, RolloutEngine, TakesMessages, Verifier

PAYERS = {"engine": "policy", "verifier": "judge", "domain": "tools"}  # roles of the ledger


class Judging(Protocol):
    """What judges an episode."""

    @property
    def unsealed(self) -> Domain:
        """The domain itself: a seal hides what else it can do."""
        ...

    @property
    def verifier(self) -> Verifier:
        """The verifier."""
        ...


async def probe_task(task: Judging) -> dict[str, Spent]:
    """Ask what domain and verifier depend on whether it is there; return what that cost, by the
    ledger's roles. To be called before anything is spent. Raises as ``Probes.probe``."""
    spent = {}
    for role, part in (("domain", task.unsealed), ("verifier", task.verifier)):
        if isinstance(part, Probes):
            spent[PAYERS[role]] = await part.probe()
    return spent


async def probe_endpoint(engine: RolloutEngine, sampling: Sampling) -> Spent:
    """Ask an endpoint whether it serves the run; return what that cost. No other engine is asked.

    To be called before the engine is used or its facts are read. Raises as ``TakesMessages.probe``.
    """
    return await engine.probe(sampling) if isinstance(engine, TakesMessages) else Spent()


async def probe_all(
    task: Judging, engine: RolloutEngine, sampling: Sampling
) -> Mapping[str, Spent]:
    """Ask everything that the parts depend on; return what that cost, by the ledger's roles."""
    spent = {PAYERS["engine"]: await probe_endpoint(engine, sampling)}
    return {**spent, **await probe_task(task)}


async def close_task(task: Judging) -> None:
    """Close domain and verifier, where they hold anything open."""
    await close_each(task.unsealed, task.verifier)


async def close_each(*parts: Any) -> None:
    """Close each part that can be closed, also where an earlier one fails."""
    async with AsyncExitStack() as stack:
        for part in reversed(parts):
            if isinstance(part, Closes):
                stack.push_async_callback(part.close)


@contextmanager
def closed_on_error(*parts: Any) -> Iterator[None]:
    """Close ``parts`` if what is done here fails: in a notebook the process lives on."""
    try:
        yield
    except BaseException:
        asyncio.run(close_each(*parts))
        raise
