"""Rollouts under several harnesses of the archive: which are best, and what a run records."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from run_kit import blocks_of

from whale_core.config.settings import CapSettings
from whale_core.errors import RunFolderError
from whale_core.jail import probe
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.records import Sampling
from whale_core.roles import Group, Rejection, Score
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy
from whale_core.run.archive import (
    CONFIRMATION,
    SELECTION,
    ArchiveEntry,
    ScoreRecord,
    best_of,
    entry_id,
    metadata_bytes,
)
from whale_core.run.caps import Caps
from whale_core.run.contexts import WeightPhaseContext
from whale_core.run.folder import RunFolder
from whale_core.run.ledger import Ledger
from whale_core.run.rollouts import Rollouts
from whale_core.run.sampler import PromptSampler
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig

DOMAIN = ToyDomain(DomainConfig(), Setup(0))
SOURCE = DOMAIN.harnesses[DOMAIN.base_harness]
PROMPTS = list(DOMAIN.split("weight")[:3])


def entry(index: int, *scores: tuple[int, float, float], **more: object) -> ArchiveEntry:
    """Return the ``index``-th harness with scores of ``(phase, mean, model calls)``."""
    source = f"{SOURCE}\nNUMBER = {index}\n"
    kind = str(more.pop("kind", SELECTION))
    records = tuple(
        ScoreRecord(
            number=phase,
            cycle=1,
            phase=phase,
            iteration=1,
            score=Score(content_hash(source), f"w{phase}", mean, 8, 0, {}, calls, 0),
            kind=kind,
        )
        for phase, mean, calls in scores
    )
    return ArchiveEntry(entry_id(index), source, 1, 1, 1, scores=records, **more)  # type: ignore[arg-type]


def test_the_best_are_those_of_the_last_search() -> None:
    """Scores under other weights do not compare, and those that confirm a choice are none."""
    entries = [
        entry(0, (2, 0.1, 1.0), (4, 0.5, 2.0)),
        entry(1, (2, 0.9, 1.0)),  # stale
        entry(2, (4, 0.7, 3.0)),
        entry(3, (4, 0.5, 1.0)),
        entry(4, (4, 0.5, 2.0)),
        entry(5, (4, 0.8, 1.0), rejection=Rejection("null", "it solves the task itself")),
        entry(6, (6, 0.9, 1.0), kind=CONFIRMATION),
        entry(7),
    ]
    assert [h.name for h in best_of(entries)] == ["h0002", "h0003", "h0000", "h0004"]
    assert best_of([]) == [] == best_of([entry(0)])


ENTRIES = [entry(0, (2, 0.2, 1.0)), entry(1, (2, 0.1, 1.0)), entry(2, (2, 0.9, 1.0))]
ACCEPTED = ENTRIES[0].harness  # not the best by this score: a rule may decide otherwise


def context(folder: RunFolder) -> WeightPhaseContext:
    engine = ScriptedEngine(lambda prompt, rng: str(rng.choice(list("aeiou"))))
    rollouts = Rollouts(
        executor=RolloutExecutor(DOMAIN, ToyVerifier(VerifierConfig(), Setup(0)), probe("auto")),
        policy=EnginePolicy(engine, Sampling()),
        tokenizer=engine.tokenizer,
        folder=folder,
        ledger=Ledger(),
        observers=Plugins().hooks,
        seed=0,
        max_not_scored=0.1,
        caps=Caps(CapSettings(), folder.path),
    )
    rollouts.phase, rollouts.cycle = 3, 2
    return WeightPhaseContext(
        engine=engine,
        harness=ACCEPTED,
        seed=0,
        next_step=7,
        sampler=PromptSampler(PROMPTS, 0),
        rollouts=rollouts,
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with an archive of three harnesses."""
    folder = RunFolder.create(tmp_path / "run")
    folder.commit("run_started")
    folder.close()
    for each in ENTRIES:
        path = folder.path / "harnesses" / each.id
        path.mkdir()
        (path / "harness.py").write_text(each.source)
        (path / "metadata.json").write_bytes(metadata_bytes(each))
    return folder.path


def mixed(folder: RunFolder, order: tuple[int, ...] = (2, 0, 2)) -> list[Group]:
    harnesses = [ENTRIES[index].harness for index in order]
    return asyncio.run(context(folder).rollout(PROMPTS, 2, 7, harnesses))


def test_the_accepted_harness_is_among_them(run: Path) -> None:
    folder = RunFolder.open(run)
    best = context(folder).best_harnesses
    assert [h.name for h in best(2)] == ["h0000", "h0002"]
    assert [h.name for h in best(9)] == ["h0000", "h0002", "h0001"]
    assert best(1) == [ACCEPTED]
    folder.close()


def test_each_prompt_is_under_its_own_harness_and_that_is_recorded(run: Path) -> None:
    folder = RunFolder.open(run)
    groups = mixed(folder)
    folder.close()
    ids = [[t.harness_id for t in group.trajectories] for group in groups]
    best, accepted = ENTRIES[2].harness.id, ACCEPTED.id
    assert ids == [[best] * 2, [accepted] * 2, [best] * 2]
    (line,) = [block for block in blocks_of(run) if block["event"] == "harness_mixture"]
    assert (line["phase"], line["step"]) == (3, 7)
    assert line["harnesses"] == ["h0002", "h0000", "h0002"]
    with np.load(run / "rows" / "step-000007.npz") as rows:
        assert rows["harness"].tolist() == [best] * 2 + [accepted] * 2 + [best] * 2


def test_a_continued_run_repeats_it_exactly_and_takes_no_other(run: Path) -> None:
    folder = RunFolder.open(run)
    groups = mixed(folder)
    folder.close()
    before = blocks_of(run)
    rollouts = (run / "rollouts" / "phase-003.jsonl").read_bytes()

    folder = RunFolder.open(run)
    folder.replay_from(1)
    again = mixed(folder)
    assert not folder.replaying
    folder.close()
    assert blocks_of(run) == before
    assert (run / "rollouts" / "phase-003.jsonl").read_bytes() == rollouts
    assert [g.trajectories for g in again] == [g.trajectories for g in groups]

    folder = RunFolder.open(run)
    folder.replay_from(1)
    with pytest.raises(RunFolderError, match="harness_mixture: harnesses"):
        mixed(folder, (0, 0, 2))
    folder.close()


def test_without_a_mixture_nothing_more_is_recorded(run: Path) -> None:
    folder = RunFolder.open(run)
    groups = asyncio.run(context(folder).rollout(PROMPTS, 2, 7))
    folder.close()
    assert {t.harness_id for g in groups for t in g.trajectories} == {ACCEPTED.id}
    assert [block["event"] for block in blocks_of(run)] == ["run_started", "rollouts"]
    with np.load(run / "rows" / "step-000007.npz") as rows:
        assert "harness" not in rows
