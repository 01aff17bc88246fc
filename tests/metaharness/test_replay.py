"""Recorded proposals: played back, checked, made from a run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import cattrs
import pytest
import recording_kit
from attrs import define, evolve
from metaharness_fakes import CATALOGUE, H0, FakeContext, FakeDomain, Questioning, h, run, search
from workspace_kit import make_archive, opened

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_metaharness.members import replace_members
from whale_metaharness.proposers.replay import ReplayProposer
from whale_metaharness.proposers.settings import ReplayConfig
from whale_metaharness.recording import ABOUT, LeftOut, read_recording
from whale_metaharness.recording_check import recording_problems


def discovery(size: int) -> str:
    """Return H0 with a parser that the catalogue does not have."""
    old = H0[H0.index("    def parse") : H0.index("    async def run")]
    new = f"    def parse(self, text):\n        return text.strip()[:{size}]\n\n"
    return H0.replace(old, new)


def write_recording(folder: Path, rounds: Any, domain: str = "fake", **more: Any) -> Path:
    parents = more.pop("parents", [H0] * len(rounds))
    return recording_kit.write_recording(folder, rounds, parents, domain, **more)


FIVE = [[discovery(size)] for size in range(5)]
DOMAIN = FakeDomain()


def replay(folder: Path | str, domain: Any = None) -> ReplayProposer:
    setup = Setup(seed=0, domain=domain or FakeDomain())
    return ReplayProposer(ReplayConfig(str(folder)), setup)


def test_rounds_are_played_in_order_then_nothing(tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "r", [[discovery(1), discovery(2)], ["class ("]])
    proposer = replay(recording)
    assert proposer.note.startswith(
        "Candidate harnesses are replays of recorded proposals (written"
    )
    iterations = run(search(proposer), FakeContext(tmp_path / "h"), 4)
    assert [len(each.candidates) for each in iterations] == [1, 2, 1, 0]
    second, third = iterations[1].candidates, iterations[2].candidates
    assert [each.harness.source for each in second] == [discovery(1), discovery(2)]
    assert second[0].hypothesis == "round 1 helps" and second[0].parent == "h0000"
    assert third[0].rejection is not None and third[0].rejection.gate == "parse"  # as any
    assert "no new candidate" in iterations[3].accepted_reason


def test_a_later_phase_goes_on_with_the_next_round(tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "r", FIVE)
    run(search(replay(recording)), FakeContext(tmp_path / "h"), 3)
    later = FakeContext(tmp_path / "h", phase=3, cycle=1, weights_id="w1")
    iterations = run(search(replay(recording)), later, 3)
    sources = [each.candidates[0].harness.source for each in iterations[1:]]
    assert sources == [discovery(2), discovery(3)]


def test_parents_are_found_by_what_they_are(tmp_path: Path) -> None:
    child = discovery(7)
    recording = write_recording(tmp_path / "r", [[child]], parents=[discovery(1)])
    make_archive(tmp_path / "h", [H0, h("A = 1"), discovery(1)])
    with opened(tmp_path / "h") as workspace:
        (made,) = asyncio.run(replay(recording).propose(workspace)).candidates
    assert made.parent == "h0002"  # metadata.json says h0000, as the archive then counted
    make_archive(tmp_path / "g", [H0])
    with opened(tmp_path / "g") as workspace:
        (made,) = asyncio.run(replay(recording).propose(workspace)).candidates
    assert made.parent is None


def test_a_domain_s_own_recording_is_found_by_name(tmp_path: Path) -> None:
    @define
    class Shipping(FakeDomain):
        recordings: Any = None

    domain = Shipping(recordings={"first": write_recording(tmp_path / "r", FIVE)})
    assert replay("first", domain)
    with pytest.raises(InputError, match=r"recording=frist: name one that .* ships \(first\)"):
        replay("frist", domain)
    with pytest.raises(InputError, match=r"ships \(none\), or a folder with a recording.json"):
        replay("")


def test_what_is_wrong_with_a_recording_is_said(tmp_path: Path) -> None:
    other = write_recording(tmp_path / "other", FIVE, domain="chess")
    with pytest.raises(InputError, match="for the domain chess, this is fake"):
        replay(other)
    changed = write_recording(tmp_path / "changed", FIVE)
    (changed / "iteration-03/candidate-1/harness.py").write_text(discovery(9))
    with pytest.raises(InputError, match=r"candidate-1/harness.py is not the source that"):
        replay(changed)
    more = write_recording(tmp_path / "more", FIVE)
    (more / "iteration-01/extra").mkdir()
    (more / "iteration-01/extra/harness.py").write_text("")
    with pytest.raises(InputError, match=r"has the slots candidate-1, extra, .* candidate-1$"):
        replay(more)
    (more / ABOUT).write_text('{"domain": 1}')
    with pytest.raises(InputError, match="not the account of a recording"):
        replay(more)
    newer = write_recording(tmp_path / "newer", FIVE)
    account = json.loads((newer / ABOUT).read_text())
    (newer / ABOUT).write_text(json.dumps({**account, "format": 2}))
    with pytest.raises(InputError, match="format 2; this version reads 1"):
        replay(newer)


def test_a_sound_recording(tmp_path: Path) -> None:
    assert recording_problems(write_recording(tmp_path / "r", FIVE), FakeDomain()) == []


EDIT = [replace_members(H0, edit.members) for edit in CATALOGUE]
DRESSED = EDIT[0].replace('"""Asks once."""', '"""Thinks."""') + "# new\n"
TWO = replace_members(EDIT[0], CATALOGUE[2].members)


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (EDIT[0], "the same program as catalogue edit steps"),
        (DRESSED, "the same program as catalogue edit steps"),
        (TWO, "a mix of what was there before (it has steps, last-number)"),
        (replace_members(discovery(0), CATALOGUE[0].members), "a mix of what was there before"),
        (replace_members(discovery(0), {"RETRIES": "RETRIES = 1\n"}), "(it has retry)"),
        (H0, "the same program as base"),
        (discovery(0), "the same program as round 1, candidate-1"),
        ("x = 1\n", "refused by the gate 'interface'"),
        ("class (\n", "refused by the gate 'parse'"),
        ("", "refused by the gate 'size'"),
    ],
)
def test_what_is_no_discovery_is_refused(candidate: str, said: str, tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "r", [*FIVE, [candidate]])
    (problem,) = recording_problems(recording, FakeDomain())
    assert "round 6, candidate-1: " in problem and said in problem


def test_a_parent_must_have_come_before(tmp_path: Path) -> None:
    """One that was left out counts as known: its hash is told."""
    parents = [H0, *(sources[0] for sources in FIVE[:4])]
    assert recording_problems(write_recording(tmp_path / "in", FIVE, parents=parents), DOMAIN) == []
    parents[2] = FIVE[3][0]
    folder = write_recording(tmp_path / "after", FIVE, parents=parents)
    (problem,) = recording_problems(folder, DOMAIN)
    assert "round 3, candidate-1: its parent" in problem and "in no earlier round" in problem
    account = read_recording(folder)
    left_out = {"candidate-2": LeftOut(content_hash(FIVE[3][0]), None, "a catalogue edit")}
    first = evolve(account.iterations[0], left_out=left_out)
    told = evolve(account, iterations=(first, *account.iterations[1:]))
    (folder / ABOUT).write_text(json.dumps(cattrs.unstructure(told)))
    assert recording_problems(folder, DOMAIN) == []


def test_a_recording_that_carries_an_example_is_refused(tmp_path: Path) -> None:
    smuggled = discovery(9).replace("You answer.", "Leonora Brask opened a ferry in 1871.")
    recording = write_recording(tmp_path / "r", [*FIVE, [smuggled]])
    (problem,) = recording_problems(recording, Questioning())
    assert "round 6, candidate-1: refused by the gate 'leak': the name 'leonora brask'" in problem


def test_a_class_that_cannot_be_taken_apart_costs_a_line(tmp_path: Path) -> None:
    odd = (
        "class Harness(BaseHarness):\n\f    async def run(self, task, model, env):\n        pass\n"
    )
    recording = write_recording(tmp_path / "r", [*FIVE, [odd]])
    (problem,) = recording_problems(recording, FakeDomain())
    assert "round 6, candidate-1: its members cannot be told apart: class Harness has" in problem


@pytest.mark.parametrize(
    "candidate",
    [
        replace_members(EDIT[0], {"parse": "def parse(self, text):\n    return text[:99]\n"}),
        replace_members(H0, {"EXTRA": "EXTRA = 3\n"}),
        H0.replace("import re\n", "import re\nimport json\n"),
    ],
)
def test_something_new_beside_an_edit_is_a_discovery(candidate: str, tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "r", [*FIVE, [candidate]])
    assert recording_problems(recording, FakeDomain()) == []


def test_a_recording_must_be_long_and_tell_what_was_read(tmp_path: Path) -> None:
    short = write_recording(tmp_path / "short", [*FIVE[:3], []], reads={})
    problems = recording_problems(short, FakeDomain())
    assert "4 rounds; a recording has 5 or more" in problems[0]
    assert [p for p in problems if p.endswith("round 4 has no candidate")]
    assert sum("does not tell what was read" in problem for problem in problems) == 4
    (problem,) = recording_problems(tmp_path / "none", FakeDomain())
    assert "not the account of a recording" in problem
    other = write_recording(tmp_path / "other", FIVE, domain="chess")
    assert recording_problems(other, FakeDomain()) == [
        f"{other}: recorded for chess/base, which domain fake does not have"
    ]
