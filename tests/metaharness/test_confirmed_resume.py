"""A run that dies while it confirms goes on exactly, and pays for nothing twice.

Real rollouts: jail, executor, run folder. What a kill leaves is the journal up to some line, part
of the next one, and files that may be longer than it says.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from metaharness_fakes import ScriptedProposer
from run_kit import timeless

from whale_core.config.settings import CapSettings, SearchSettings
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.records import Sampling
from whale_core.roles import Candidate, Conclusion
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy
from whale_core.run.caps import Caps
from whale_core.run.contexts import SearchPhaseContext
from whale_core.run.folder import LEDGER, RunFolder
from whale_core.run.harness_sample import harness_sample
from whale_core.run.ledger import Ledger
from whale_core.run.parts import choose_jail
from whale_core.run.rollouts import Rollouts, candidate_json
from whale_core.testing.contracts.domain import with_members
from whale_core.testing.workbench import (
    NO_FILTER,
    CoinVerifier,
    as_harness,
    shuffling_engine,
    toy_domain,
)
from whale_metaharness.config import Config
from whale_metaharness.search import MetaHarness

pytestmark = pytest.mark.slow  # it builds a whole run: over a minute on a busy core

DOMAIN = toy_domain()
BASE = DOMAIN.harnesses[DOMAIN.base_harness]
SCRIPT = [[Candidate(with_members(BASE, edit), None) for edit in DOMAIN.catalogue][:3]]


async def phase(folder: RunFolder) -> None:
    """Search a phase of two iterations and conclude it, committing as the alternation does."""
    engine = shuffling_engine()
    jail, _ = choose_jail("auto", None)
    rollouts = Rollouts(
        executor=RolloutExecutor(DOMAIN, CoinVerifier(), jail),
        policy=EnginePolicy(engine, Sampling(top_k=NO_FILTER)),
        tokenizer=engine.tokenizer,
        folder=folder,
        ledger=Ledger.of(folder.read(LEDGER)),
        observers=Plugins().hooks,
        seed=0,
        max_not_scored=0.9,
        caps=Caps(CapSettings(), folder.path),
        phase=1,
        cycle=1,
    )
    context = SearchPhaseContext(
        domain=DOMAIN,
        harness=as_harness(BASE, "base"),
        weights_id=await engine.weights_id(),
        cycle=1,
        phase=1,
        seed=0,
        folder=folder.path / "harnesses",
        sample=harness_sample(DOMAIN.split("harness"), SearchSettings(examples=8), 0),
        null_examples=DOMAIN.split("harness")[:4],
        draws=1,
        jail_kind=jail,
        rollouts=rollouts,
    )
    setup = Setup(seed=0, domain=DOMAIN, proposer=ScriptedProposer(SCRIPT))
    search = MetaHarness(Config(acceptance="confirmed"), setup)
    search.restore(context.folder, None)
    iterations = search.iterations(context)
    for _ in range(2):
        made = await anext(iterations)
        folder.commit("search_iteration", best=made.best, reason=made.accepted_reason)
    await iterations.aclose()
    concluded = await search.conclude(context)
    assert isinstance(concluded, Conclusion)
    folder.commit(
        "search_conclusion",
        accepted=concluded.accepted.name,
        reason=concluded.accepted_reason,
        candidates=[candidate_json(each) for each in concluded.candidates],
    )


def content(path: Path) -> dict[str, Any]:
    folder = RunFolder.open(path)
    try:
        return {
            "journal": timeless(folder.entries),
            "ledger": timeless(folder.read(LEDGER)),
            "rollouts": timeless(folder.read("rollouts/phase-001.jsonl")),
            "archive": {
                file.relative_to(path).as_posix(): file.read_bytes()
                for file in sorted((path / "harnesses").glob("h*/*"))
            },
        }
    finally:
        folder.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    folder = RunFolder.create(path)
    folder.commit("run_started")
    asyncio.run(phase(folder))
    folder.close()
    return path


@pytest.mark.parametrize("kept", [0, 1], ids=["before", "after"])
def test_a_kill_around_the_confirmation(kept: int, whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    lines = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (confirming,) = [n for n, line in enumerate(lines) if b'"purpose": "confirm"' in line]
    (path / "journal.jsonl").write_bytes(b"".join(lines[: confirming + kept]) + b'{"event": "ro')
    folder = RunFolder.open(path)
    folder.replay_from(1)
    asyncio.run(phase(folder))
    assert not folder.replaying
    folder.close()
    now, then = content(path), content(whole)
    for part in then:
        assert now[part] == then[part], part


def test_the_confirmation_is_charged_once_under_its_own_name(whole: Path) -> None:
    made = content(whole)
    charged = [line for line in made["ledger"] if line["purpose"] == "confirm"]
    assert sum(line["rollouts"] for line in charged) == 2 * 8 * 2  # two harnesses, two draws
    confirmed = [each for each in made["rollouts"] if each["key"]["purpose"] == "confirm"]
    scored = {each["example"] for each in made["rollouts"] if each["key"]["purpose"] == "score"}
    assert len(confirmed) == 32 and not scored & {each["example"] for each in confirmed}
