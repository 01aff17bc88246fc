"""What parts hold open and depend on: asked for before anything is spent, closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from whale_core.abilities import Closes, Probes, ProbesDecoding
from whale_core.records import Sampling, Spent
from whale_core.roles import Domain, ModelUpdate, Proposer, RolloutEngine, Verifier


async def probe_service(part: object) -> Spent:
    """Ask what a part depends on, if it says that there is something, whether it is there; return
    what that cost. Of a domain, the unsealed one is wanted: a seal hides what else it can do.

    To be called before anything is spent. Raises as ``Probes.probe``.
    """
    return await part.probe() if isinstance(part, Probes) else Spent()


async def probe_endpoint(engine: RolloutEngine, sampling: Sampling) -> Spent:
    """Ask an engine that depends on a service whether that serves the run; return what that cost.
    No other engine is asked.

    To be called before the engine is used or its facts are read. Raises as ``ProbesDecoding``'s
    and ``TakesMessages``'s ``probe``.
    """
    return await engine.probe(sampling) if isinstance(engine, ProbesDecoding) else Spent()


async def probe_all(
    domain: Domain,
    verifier: Verifier,
    engine: RolloutEngine,
    sampling: Sampling,
    proposer: Proposer | None = None,
    update: ModelUpdate | None = None,
) -> Mapping[str, Spent]:
    """Ask everything that the parts depend on, what costs least first; return what that cost, by
    the ledger's roles."""
    return {
        "trainer": await probe_service(update),
        "tools": await probe_service(domain),
        "policy": await probe_endpoint(engine, sampling),
        "judge": await probe_service(verifier),
        "proposer": await probe_service(proposer),
    }


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
