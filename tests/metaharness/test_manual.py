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
from whale_metaharness.config import ManualConfig
from whale_metaharness.proposers.manual import ManualProposer
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


async def answered(workspace: Workspace, reads: str) -> tuple[Proposal, str]:
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
    (root / "outbox/reads.txt").write_text(reads)
    (root / "outbox/report.md").write_text("I looked.")
    (root / "outbox/done").touch()
    made = await session
    assert not waiting.exists()
    return made, checked.read_text()


def test_a_person_fills_the_outbox(tmp_path: Path) -> None:
    make_archive(tmp_path)
    with open_workspace(tmp_path, SESSION, gates) as workspace:
        made, checked = asyncio.run(answered(workspace, "archive/h0000/harness.py\n\n"))
        kept = json.loads((workspace.outbox / "reads.json").read_text())
    assert [each.source for each in made.candidates] == [H0 + "\n# mine\n"]
    assert (made.report, made.failure) == ("I looked.", "")
    assert checked == "- mine: passes\n"
    digest = hashlib.sha256((tmp_path / "h0000/harness.py").read_bytes()).hexdigest()
    assert kept == {"archive/h0000/harness.py": digest}


def test_what_was_read_must_be_of_the_workspace(tmp_path: Path) -> None:
    make_archive(tmp_path)
    with (
        open_workspace(tmp_path, SESSION, gates) as workspace,
        pytest.raises(InputError, match="is no file of the workspace"),
    ):
        asyncio.run(answered(workspace, "../../h0000/harness.py\n"))


def test_the_wait_ends_and_what_is_there_counts(tmp_path: Path) -> None:
    make_archive(tmp_path)
    with opened(tmp_path) as workspace:
        (workspace.outbox / "mine.py").write_text(H0 + "\n# mine\n")
        made = asyncio.run(manual(0.05).propose(workspace))
    assert made.failure == "nobody left outbox/done within 0.05 s"
    assert len(made.candidates) == 1
