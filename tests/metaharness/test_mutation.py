from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from metaharness_fakes import (
    CATALOGUE,
    H0,
    FakeContext,
    FakeDomain,
    mutation,
    run,
    score_of,
    search,
)

from whale_core.errors import InputError
from whale_core.roles import Edit, Rejection
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.archive import Archive
from whale_metaharness.experience import Experience, has_edit, learn
from whale_metaharness.members import members, replace_members
from whale_metaharness.normalise import normalised_hash
from whale_metaharness.outbox import read_outbox
from whale_metaharness.workspace import Session, State, open_workspace


def edited(*names: str) -> str:
    source = H0
    for edit in CATALOGUE:
        if edit.name in names:
            source = replace_members(source, edit.members)
    return source


def make_archive(folder: Path, entries: list[tuple[str, float]], phase: int = 1) -> Archive:
    archive = Archive.open(folder)
    for source, mean in entries:
        parent = None if not archive.entries else "h0000"
        name = archive.next_id()
        archive.add(ArchiveEntry(name, source, 0, phase, 1, parent=parent, axis="old"))
        archive.record(name, score_of(mean), cycle=0, phase=phase, iteration=1)
    return archive


def propose(folder: Path, seed: int = 0, count: int = 3, domain=None, **facts):  # type: ignore[no-untyped-def]
    state = State(0, 1, 2, count, "w0", "h0000", "h0000", ("format_rate",), "full", 65536)
    with open_workspace(folder, Session(evolve(state, **facts), "brief")) as workspace:
        proposal = asyncio.run(mutation(seed, domain).propose(workspace))
    assert proposal.candidates == read_outbox(workspace)
    return proposal.candidates


def test_proposals_are_new_valid_and_described(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, [(H0, 0.1), (edited("steps"), 0.2), (edited("retry"), 0.1)])
    for seed in range(12):
        candidates = propose(tmp_path, seed)
        hashes = {normalised_hash(candidate.source) for candidate in candidates}
        assert len(candidates) == len(hashes) == 3
        assert hashes.isdisjoint(archive.normalised())
        for candidate in candidates:
            assert candidate.parent in archive
            assert candidate.axis and candidate.hypothesis
            assert candidate.changes.startswith(f"{candidate.parent} with ")
            assert candidate.source.startswith('"""A base harness."""\n\nimport re\n')
            compile(candidate.source, "h", "exec")


def test_all_operators_and_parents_occur(tmp_path: Path) -> None:
    make_archive(tmp_path, [(H0, 0.1), (edited("steps", "example"), 0.4)])
    make_archive(tmp_path, [(edited("rude"), 0.9)], phase=0)  # stale, but it was good
    made = [candidate for seed in range(40) for candidate in propose(tmp_path, seed, 1)]
    axes = [candidate.axis for candidate in made]
    assert {"parser", "crossover"} <= set(axes)
    assert any(" + " in axis for axis in axes)
    parents = [candidate.parent for candidate in made]
    assert set(parents) == {"h0000", "h0001", "h0002"}
    assert 20 < parents.count("h0000") < 36
    bred = [candidate for candidate in made if "ask, EXAMPLE of h0001" in candidate.changes]
    assert bred and all("EXAMPLE" in members(candidate.source) for candidate in bred)


def test_the_same_archive_and_seed_give_the_same_candidates(tmp_path: Path) -> None:
    make_archive(tmp_path, [(H0, 0.1), (edited("steps"), 0.2)])
    first = propose(tmp_path)
    assert propose(tmp_path) == first
    assert propose(tmp_path, seed=1) != first
    assert propose(tmp_path, iteration=3) != first
    assert propose(tmp_path, count=1) == first[:1]


def test_candidates_do_not_depend_on_hash_seeds(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from metaharness_fakes import FakeContext, mutation, run, search\n"
        "for it in run(search(mutation(7)), FakeContext(Path(sys.argv[2])), 5):\n"
        "    print([(c.harness.id, c.changes) for c in it.candidates], it.accepted_reason)\n"
    )
    outputs = []
    for hash_seed in ("1", "2"):
        outputs.append(
            subprocess.run(
                [sys.executable, "-c", script, Path(__file__).parent, tmp_path / hash_seed],
                env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert outputs[0] == outputs[1] and outputs[0].count("h000") > 5


def test_an_exhausted_catalogue_gives_fewer_candidates(tmp_path: Path) -> None:
    domain = FakeDomain(catalogue=CATALOGUE[:2])
    make_archive(tmp_path, [(H0, 0.1), (edited("steps"), 0.2)])
    only = propose(tmp_path, domain=domain)
    assert [candidate.source for candidate in only] == [edited("rude")]
    make_archive(tmp_path, [(edited("rude"), 0.0)])
    assert propose(tmp_path, domain=domain) == ()


def test_the_search_climbs_and_profits_from_earlier_cycles(tmp_path: Path) -> None:
    best = []
    for seed in range(4):
        iterations = run(search(mutation(seed)), FakeContext(tmp_path / str(seed)), 8)
        best.append(iterations[-1].best)
        assert [it.best for it in iterations] == sorted(it.best for it in iterations)
    assert min(best) >= 0.5  # h0: 0; all useful edits together: 0.625


def test_experience_compares_with_the_parent_in_the_same_phase(tmp_path: Path) -> None:
    archive = make_archive(
        tmp_path,
        [(H0, 0.2), (edited("steps"), 0.4), (edited("rude"), 0.1), (edited("retry"), 0.2)],
    )
    bad = ArchiveEntry(
        "h0004", edited("example"), 0, 1, 2, "h0000", rejection=Rejection("smoke", "x")
    )
    archive.add(bad)
    archive.add(evolve(bad, id="h0005", rejection=Rejection("duplicate", "x")))
    other = ArchiveEntry("h0006", edited("last-number"), 1, 2, 2, "h0000")
    archive.add(other)
    archive.record("h0006", score_of(0.9), cycle=1, phase=2, iteration=2)  # no score to compare
    found = learn(archive, CATALOGUE, ())
    assert found["steps"] == Experience(1, 1.0)
    assert found["rude"] == Experience(1, 0.0)
    assert found["retry"] == Experience(1, 0.5)
    assert found["example"] == Experience(1, 0.0)
    assert found["last-number"] == Experience()
    assert Experience(1, 1).weight() > Experience().weight() > Experience(1, 0).weight()


TWO = (
    Edit("one", "a", "", {"RETRIES": "RETRIES = 1\n"}),
    Edit("two", "b", "", {"RETRIES": "RETRIES = 2\n"}),
)


def choices(folder: Path, **facts: object) -> tuple[int, int]:
    """Count how often each edit of ``TWO`` is in the single candidate, over 40 seeds."""
    domain = FakeDomain(catalogue=TWO)
    made = [propose(folder, seed, 1, domain, **facts)[0].source for seed in range(40)]
    return sum(has_edit(m, TWO[0]) for m in made), sum(has_edit(m, TWO[1]) for m in made)


def test_what_helped_before_is_chosen_more_often(tmp_path: Path) -> None:
    tried = [replace_members(H0, edit.members) for edit in TWO]
    other = H0.replace("You answer", "Please answer")
    make_archive(tmp_path, [(H0, 0.2), (tried[0], 0.4), (tried[1], 0.0), (other, 0.2)])
    helped, harmed = choices(tmp_path, accepted="h0003")
    assert helped > 2 * harmed > 0


def test_axes_of_the_last_iterations_are_chosen_less_often(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, [(H0, 0.2)])
    for number, iteration in ((1, 2), (2, 3)):
        rejected = Rejection("load", "x")
        source = f"X = {number}"
        archive.add(
            ArchiveEntry(f"h000{number}", source, 0, 1, iteration, axis="a", rejection=rejected)
        )
    recent, fresh = choices(tmp_path, iteration=4)
    assert fresh > 2 * recent > 0
    recent, fresh = choices(tmp_path, iteration=9)  # long ago
    assert abs(fresh - recent) < 16


def test_a_broken_catalogue_is_named() -> None:
    bad = Edit("typo", "a", "", {"parse": "def prase(self): pass"})
    with pytest.raises(InputError, match="catalogue edit 'typo': member 'parse'"):
        mutation(domain=FakeDomain(catalogue=(bad,)))
