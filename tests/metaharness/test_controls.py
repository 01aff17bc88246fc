"""The controls: random edits, and every edit alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from metaharness_fakes import CATALOGUE, H0, FakeContext, FakeDomain, run, search
from workspace_kit import make_archive, opened

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Edit, Rejection
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.members import replace_members
from whale_metaharness.outbox import read_outbox
from whale_metaharness.proposers.controls import RandomProposer, SingleEditsProposer
from whale_metaharness.proposers.settings import RandomConfig, SingleEditsConfig

EDITED = [replace_members(H0, edit.members) for edit in CATALOGUE]


def setup(seed: int = 0, domain: Any = None) -> Setup:
    return Setup(seed=seed, domain=domain or FakeDomain())


def random(seed: int = 0, domain: Any = None) -> RandomProposer:
    return RandomProposer(RandomConfig(), setup(seed, domain))


def single_edits(domain: Any = None) -> SingleEditsProposer:
    return SingleEditsProposer(SingleEditsConfig(), setup(domain=domain))


def propose(folder: Path, proposer: Any, **facts: object) -> list[str]:
    with opened(folder, **facts) as workspace:
        made = asyncio.run(proposer.propose(workspace))
        assert made.candidates == read_outbox(workspace)
    assert all(each.parent and each.axis and each.hypothesis for each in made.candidates)
    return [each.source for each in made.candidates]


def test_random_draws_each_applicable_edit_alike(tmp_path: Path) -> None:
    make_archive(tmp_path, [H0, EDITED[1]])  # the second edit has been tried
    drawn = Counter(propose(tmp_path, random(seed), count=1)[0] for seed in range(24))
    assert set(drawn) == {EDITED[0], *EDITED[2:]}
    assert all(0 < count < 16 for count in drawn.values())
    first = propose(tmp_path, random(), count=3)
    assert first == propose(tmp_path, random(), count=3) and len(set(first)) == 3
    assert first != propose(tmp_path, random(), count=3, iteration=3)


def test_random_edits_the_accepted_harness_until_nothing_is_left(tmp_path: Path) -> None:
    make_archive(tmp_path, [H0, EDITED[0]])
    made = propose(tmp_path, random(), count=9, accepted="h0001")
    steps = [replace_members(EDITED[0], edit.members) for edit in CATALOGUE[2:]]
    both = replace_members(EDITED[0], CATALOGUE[1].members)  # its other SYSTEM_PROMPT: tried? no
    assert both == EDITED[1] and set(made) == {*steps, both}
    make_archive(tmp_path, made)
    assert propose(tmp_path, random(), accepted="h0001") == []


def test_single_edits_are_tried_in_order_then_those_of_the_accepted(tmp_path: Path) -> None:
    make_archive(tmp_path)
    assert propose(tmp_path, single_edits(), count=2) == EDITED[:2]
    make_archive(tmp_path, EDITED[:2], iteration=2)
    left = propose(tmp_path, single_edits(), count=9, accepted="h0001", iteration=3)
    assert left[:3] == EDITED[2:]
    assert left[3:] == [replace_members(EDITED[0], edit.members) for edit in CATALOGUE[2:]]


def test_rejected_edits_are_not_tried_again_and_stale_ones_are(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    refused = Rejection("smoke", "x")
    archive.add(ArchiveEntry("h0001", EDITED[0], 0, 1, 2, "h0000", rejection=refused))
    make_archive(tmp_path, [EDITED[1]], phase=0)
    assert propose(tmp_path, single_edits(), count=1) == [EDITED[1]]
    assert EDITED[0] not in propose(tmp_path, random(), count=9)


def test_an_edit_that_does_not_fit_is_passed_over(tmp_path: Path) -> None:
    twice = H0.replace("    RETRIES = 0\n", "    RETRIES = 0\n    RETRIES = 0\n")
    make_archive(tmp_path, [twice])
    made = propose(tmp_path, single_edits(), count=9)
    assert len(made) == 4 and not any("RETRIES = 1" in source for source in made)


@pytest.mark.parametrize("make", [random, single_edits])
def test_a_search_with_a_control(make: Any, tmp_path: Path) -> None:
    iterations = run(search(make()), FakeContext(tmp_path), 8)
    assert iterations[-1].best >= 0.5
    assert make().note.endswith("a control, not a discovery.") and not make().writes_code


def test_a_broken_catalogue_is_named() -> None:
    bad = FakeDomain(catalogue=(Edit("typo", "a", "", {"parse": "def prase(self): pass"}),))
    for make in (random, single_edits):
        with pytest.raises(InputError, match="catalogue edit 'typo': member 'parse'"):
            make(domain=bad)
    with pytest.raises(InputError, match="proposer random needs a domain"):
        RandomProposer(RandomConfig(), Setup(seed=0))


@pytest.mark.parametrize("make", [random, single_edits])
def test_only_what_the_search_space_admits_is_tried(make: Any, tmp_path: Path) -> None:
    make_archive(tmp_path)
    made = propose(tmp_path, make(), count=9, space="prompt-only")
    assert sorted(made) == sorted(EDITED[:2])  # the two that change a prompt
