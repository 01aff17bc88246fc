"""Long runs: memory is flat after warm-up, and no descriptor, process or thread is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from attrs import frozen

from whale_core.jail import probe
from whale_core.keys import DrawKey, content_hash
from whale_core.plugins import Setup
from whale_core.records import Outcome, Sampling
from whale_core.roles import Harness
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy
from whale_core.testing.engine import FaultyEngine, answers, dies
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig

SETUP = Setup(0)
DOMAIN = ToyDomain(DomainConfig(weight=500), SETUP)
SOURCE = DOMAIN.harnesses[DOMAIN.base_harness]
BASE = Harness(content_hash(SOURCE), SOURCE)
MEGABYTES = 4.0  # of growth allowed; measured: see docs/reliability.md
SPOILED = answers(lambda made: [None, *made[1:]])


@frozen
class Usage:
    """What this process holds."""

    megabytes: float
    descriptors: int
    processes: int
    threads: int

    @classmethod
    def now(cls) -> Usage:
        """Measure."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            megabytes=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
            descriptors=len(os.listdir("/proc/self/fd")),
            processes=len(descendants()),
            threads=threading.active_count(),
        )

    @property
    def handles(self) -> tuple[int, int, int]:
        """Everything but the memory."""
        return self.descriptors, self.processes, self.threads


def descendants() -> set[int]:
    """Return the ids of all processes that come from this one, dead and unburied ones included."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found: set[int] = set()
    new = {os.getpid()}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def letters(prompt: str, rng: np.random.Generator) -> str:
    return "".join(rng.permutation(list(prompt.split("Letters: ")[-1][:6])))


def jobs(harnesses: Sequence[Harness], per_harness: int, batch: int) -> list[Job]:
    return [
        Job(example, harness, DrawKey(0, "score", 1, batch, example.id, 0))
        for harness in harnesses
        for example in DOMAIN.split("weight")[:per_harness]
    ]


def candidate(number: int) -> Harness:
    """Return one of many different harnesses; some do not load, some misbehave."""
    source = f"{SOURCE}\n\nNUMBER = {number}\n"
    if number % 10 == 7:
        source += "raise RuntimeError('does not load')\n"
    if number % 10 == 3:
        source = source.replace("return str(reply.text)", "raise ValueError('gives up')")
    return Harness(content_hash(source), source)


def play(batches: Sequence[Sequence[Job]], warm_up: int) -> tuple[list[Usage], set[Outcome]]:
    """Run the batches in one event loop; return the usage after each from ``warm_up`` on."""
    usages, outcomes = [], set()
    lost = {call: dies(RuntimeError("gone")) for call in range(5, 10**6, 97)}
    engine = FaultyEngine(letters, {**lost, **dict.fromkeys(range(11, 10**6, 89), SPOILED)})

    async def main() -> None:
        executor = RolloutExecutor(DOMAIN, ToyVerifier(VerifierConfig(), SETUP), probe("auto"))
        policy = EnginePolicy(engine, Sampling())
        for number, batch in enumerate(batches):
            outcomes.update(t.outcome for t in await executor.run(batch, policy))
            engine.batches = [()] * len(engine.batches)  # it remembers; a real one does not
            if number >= warm_up:
                usages.append(Usage.now())

    asyncio.run(main())
    return usages, outcomes


def check(usages: Sequence[Usage], what: str) -> None:
    """Print the figures; fail when something has grown."""
    growth = max(usage.megabytes for usage in usages) - usages[0].megabytes
    print(
        f"{what}: RSS {usages[0].megabytes:.1f} MB after warm-up, {usages[-1].megabytes:.1f} MB at "
        f"the end, grown by {growth:.2f} MB at most; descriptors, processes, threads "
        f"{usages[0].handles} then {usages[-1].handles}"
    )
    assert {usage.handles for usage in usages} == {usages[0].handles}
    assert growth < MEGABYTES


def test_500_episodes_and_20_candidates_leave_nothing_behind() -> None:
    gc.collect()
    before = Usage.now()
    episodes = [jobs([BASE], 100, number) for number in range(5)]
    usages, outcomes = play(episodes, 0)
    assert outcomes >= {Outcome.PASS, Outcome.FAIL}
    candidates = [
        jobs([candidate(number) for number in range(start, start + 5)], 2, start)
        for start in range(0, 20, 5)
    ]
    usages += play(candidates, 0)[0]
    # within the loop there are a few descriptors more than before it: the loop's own
    assert {usage.handles for usage in usages} == {usages[0].handles}
    assert Usage.now().handles == before.handles


@pytest.mark.slow
def test_10_000_episodes_grow_nothing() -> None:
    batches = [jobs([BASE], 250, number) for number in range(40)]
    usages, outcomes = play(batches, 8)
    check(usages, f"{sum(map(len, batches))} episodes, warm-up 2000")
    assert outcomes >= {Outcome.PASS, Outcome.FAIL}


@pytest.mark.slow
def test_300_candidates_grow_nothing() -> None:
    batches = [
        jobs([candidate(number) for number in range(start, start + 10)], 4, start)
        for start in range(0, 300, 10)
    ]
    usages, _ = play(batches, 6)
    check(usages, "300 candidates of 4 episodes, warm-up 60")
