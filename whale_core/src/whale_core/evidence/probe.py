"""A bounded probe of both coordinates from one state, with a run's own parts (``diagnosis``).

The search and the weight phase are those of a run: the same plugins, contexts and executor, in a
folder that is removed afterwards. Neither sees the selection split; the four pairs are measured
there on common draws that nothing else uses (purpose ``probe``), first on examples that the run's
own evaluations leave out. The test split stays sealed.
"""

from __future__ import annotations

import asyncio
import time

from whale_core.config import Resolved
from whale_core.errors import InputError
from whale_core.evidence.bench import open_bench
from whale_core.evidence.probe_size import Budget, held_examples
from whale_core.evidence.probed import Probed
from whale_core.evidence.start import Start, check_same_task
from whale_core.plugins.manager import Observers, Plugins
from whale_core.run.ledger import spent_charge
from whale_core.run.parts import Parts, build_parts, check_loads, sampling_of
from whale_core.run.reader import StoredRun
from whale_core.run.services import close_each, probe_all
from whale_core.run.stopping import stopping_at_once


def probe_set(resolved: Resolved, plugins: Plugins, budget: Budget) -> Probed:
    """Probe the state that a run with these settings would start from.

    Raises:
        InputError: the settings lack a coordinate, or the budget is none.
        WhaleError: a run with these settings could not be started, or it stopped.
    """
    budget.check()
    return _probe(resolved, plugins, None, budget)


def probe_run(run: StoredRun, resolved: Resolved, plugins: Plugins, budget: Budget) -> Probed:
    """Probe the state in which ``run`` stands, with its settings; nothing is written into it.

    Raises:
        RunFolderError: the run has no state yet, or its files or its task are not as they were.
        InputError, WhaleError: as ``probe_set``.
    """
    budget.check()
    return _probe(resolved, plugins, Start.of_run(run), budget)


def _probe(resolved: Resolved, plugins: Plugins, start: Start | None, budget: Budget) -> Probed:
    missing = [role for role in ("model_update", "harness_search") if role not in resolved.chosen]
    if missing:
        raise InputError(
            f"a diagnosis probes both coordinates, but {' and '.join(missing)} is not set: "
            f"choose one, {missing[0]}=…"
        )
    parts = build_parts(resolved, plugins, None if start is None else start.harness.source)

    async def work() -> Probed:
        try:
            with stopping_at_once():
                return await _probed(resolved, parts, plugins.hooks, start, budget)
        finally:
            await close_each(*parts.closing)

    return asyncio.run(work())


async def _probed(
    resolved: Resolved, parts: Parts, observers: Observers, start: Start | None, budget: Budget
) -> Probed:
    started = time.monotonic()
    core = resolved.core
    await check_loads(parts)
    spent = await probe_all(
        parts.unsealed,
        parts.verifier,
        parts.engine,
        sampling_of(core.rollout),
        parts.proposer,
        parts.update,
    )
    if start is not None and start.run is not None:
        check_same_task(start.run, parts.domain, parts.verifier)
    examples = budget.examples or core.selection.examples
    held, note = held_examples(parts.domain, examples, core.selection.examples)
    notes = tuple(each for each in (*parts.notes, note) if each)
    for each in notes:
        observers.on_notice(each)
    async with open_bench(resolved, parts, observers, start or Start(parts.h0)) as bench:
        for role, cost in spent.items():
            bench.rollouts.charge(spent_charge(role, cost, "probe"))
        return await bench.probed(held, budget, started, notes)
