"""The proposer ``manual``: it waits for a person, checks on request, and keeps what was read."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from metaharness_fakes import H0, FakeDomain
from workspace_kit import STATE, make_archive, opened

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Proposal, Rejection, Workspace
from whale_metaharness.proposers.manual import ManualProposer
from whale_metaharness.proposers.settings import ManualConfig
from whale_metaharness.workspace import Session, open_workspace

TIMEOUT = 30
SESSION = Session(STATE, "Change one mechanism.")


async def gates(source: str) -> Rejection | None:
    return None if "# mine" in source else Rejection("size", "the file is empty")


def manual(seconds: float = TIMEOUT) -> ManualProposer:
    return ManualProposer(ManualConfig(seconds), Setup(seed=0, domain=FakeDomain()))


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not true():
            await asyncio.sleep(0.01)


async def answered(workspace: Workspace, reads: bytes) -> tuple[Proposal, str]:
    """Do as a person would: find who waits, write, ask for a check, say what was read, end."""
    session = asyncio.create_task(manual().propose(workspace))
    waiting = workspace.root.parent / "waiting.txt"
    await until(waiting.exists)
    root = Path(waiting.read_text().strip())
    (root / "outbox/mine").mkdir()
    (root / "outbox/mine/harness.py").write_text(H0 + "\n# mine\n")
    (root / "outbox/check").touch()
    checked = root / "outbox/checked.md"
    await until(checked.exists)
    (root / "outbox/reads.txt").write_bytes(reads)
    (root / "outbox/report.md").write_text("I looked.")
    (root / "outbox/done").touch()
    made = await session
    assert not waiting.exists()
    return made, checked.read_text()


def test_a_person_fills_the_outbox(tmp_path: Path) -> None:
    make_archive(tmp_path)
    with open_workspace(tmp_path, SESSION, gates) as workspace:
        made, checked = asyncio.run(answered(workspace, b"archive/h0000/harness.py\n\n"))
        kept = json.loads((workspace.outbox / "reads.json").read_text())
    assert [each.source for each in made.candidates] == [H0 + "\n# mine\n"]
    assert (made.report, made.failure) == ("I looked.", "")
    assert checked == "- mine: passes\n"
    digest = hashlib.sha256((tmp_path / "h0000/harness.py").read_bytes()).hexdigest()
    assert kept == {"archive/h0000/harness.py": digest}


@pytest.mark.parametrize(
    ("reads", "said", "kept"),
    [
        (b"brief.md\n../../h0000/harness.py\n", "'../../h0000/harness.py' is no file", True),
        (b"\xef\xbb\xbfbrief.md\r\nbreif.md\n", "'breif.md' is no file of the workspace", True),
        (b"brief.md\na\0b\n", "'a\\x00b' is no file of the workspace", True),
        (b"brief.md\n" + b"x" * 5000, "is no file of the workspace", True),
        (b"brief.md\n\xff\n", "outbox/reads.txt is not UTF-8 text", False),
    ],
)
def test_a_bad_list_of_what_was_read_costs_no_candidate(
    reads: bytes, said: str, kept: bool, tmp_path: Path
) -> None:
    make_archive(tmp_path)
    with open_workspace(tmp_path, SESSION, gates) as workspace:
        made, _ = asyncio.run(answered(workspace, reads))
        path = workspace.outbox / "reads.json"
        assert (list(json.loads(path.read_text())) if path.exists() else []) == (
            ["brief.md"] if kept else []
        )
    assert len(made.candidates) == 1 and said in made.failure


def test_a_check_tells_what_is_wrong_with_the_list_of_reads(tmp_path: Path) -> None:
    make_archive(tmp_path)
    with open_workspace(tmp_path, SESSION, gates) as workspace:
        (workspace.outbox / "reads.txt").write_text("breif.md\n")
        _, checked = asyncio.run(answered(workspace, b"brief.md\n"))
    assert checked.splitlines() == [
        "- mine: passes",
        "- outbox/reads.txt: 'breif.md' is no file of the workspace",
    ]


def test_a_check_that_may_not_be_made_costs_no_candidate(tmp_path: Path) -> None:
    async def used_up(source: str) -> Rejection | None:
        raise InputError("validate: no more")

    make_archive(tmp_path)
    with open_workspace(tmp_path, SESSION, used_up) as workspace:
        made, checked = asyncio.run(answered(workspace, b""))
    assert len(made.candidates) == 1 and made.failure == ""
    assert checked == "- mine: not checked: validate: no more\n"


def test_an_interrupted_session_leaves_what_was_written(tmp_path: Path) -> None:
    make_archive(tmp_path)
    for number in (1, 2):
        with open_workspace(tmp_path, SESSION, gates) as workspace:
            assert list(workspace.outbox.iterdir()) == []
            (workspace.outbox / "mine.py").write_text(f"# {number}\n")
    with open_workspace(tmp_path, SESSION, gates) as workspace:
        root = workspace.root
    with open_workspace(tmp_path, SESSION, gates) as workspace:
        pass
    kept = sorted(root.parent.glob(f"{root.name}.*/*"))
    assert [path.read_text() for path in kept] == ["# 1\n", "# 2\n"]
    assert kept[0].parent.name == f"{root.name}.before-1"


def test_the_wait_ends_and_what_is_there_counts(tmp_path: Path) -> None:
    make_archive(tmp_path)
    with opened(tmp_path) as workspace:
        (workspace.outbox / "mine.py").write_text(H0 + "\n# mine\n")
        made = asyncio.run(manual(0.05).propose(workspace))
    assert made.failure == "nobody left outbox/done within 0.05 s"
    assert len(made.candidates) == 1
