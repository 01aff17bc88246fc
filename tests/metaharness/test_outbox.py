"""What sessions leave in their outbox, however it was written; and what they must not touch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve
from metaharness_fakes import H0, FakeContext, h, run, search

from whale_core.records import Spent
from whale_core.roles import Candidate, Proposal, Workspace
from whale_metaharness.archive import Archive
from whale_metaharness.outbox import (
    MOST_BYTES,
    read_outbox,
    read_report,
    read_slots,
    write_candidate,
)


@define
class Folder:
    """A workspace as far as reading its outbox goes."""

    outbox: Path


def put(outbox: Path, name: str, content: Any) -> None:
    path = outbox / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


WHOLE = {"parent": "h0001", "axis": "parser", "hypothesis": "why", "changes": "what"}


@pytest.mark.parametrize(
    "files",
    [
        {"a/metadata.json": WHOLE},
        {"a/metadata.json": [WHOLE]},
        {"a/metadata.json": {"candidates": [{"name": "b"}, WHOLE | {"name": "a"}]}},
        {"a/metadata.json": {k.upper(): v for k, v in WHOLE.items()}},
        {
            "a/metadata.json": {
                "base": "h0001",
                "category": "parser",
                "rationale": "why",
                "summary": "what",
            }
        },
        {"metadata.json": [{"name": "other", "axis": "x"}, WHOLE | {"slot": "a"}]},
        {"pending_eval.json": {"candidates": [WHOLE | {"harness": "harnesses/a/harness.py"}]}},
        {"candidates.json": {"a": WHOLE}},
    ],
)
def test_metadata_is_understood_however_it_is_written(files: Any, tmp_path: Path) -> None:
    put(tmp_path, "a/harness.py", "x = 1")
    for name, content in files.items():
        put(tmp_path, name, content)
    assert read_outbox(Folder(tmp_path)) == (Candidate("x = 1", **WHOLE),)


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        ("{", "metadata.json is unusable: JSONDecodeError"),
        ("[" * 100_000, "metadata.json is unusable: RecursionError"),
        ("7", ""),
        ("[1, null]", ""),
        ({"changes": ["a", "b"], "parent": None}, "a, b"),
        ({"changes": {"file": "x"}}, '{"file": "x"}'),
        ({"description": "half \ud800"}, "half ?"),
    ],
)
def test_bad_metadata_costs_the_description_only(
    content: Any, changes: str, tmp_path: Path
) -> None:
    put(tmp_path, "a/harness.py", "x = 1")
    put(tmp_path, "a/metadata.json", content)
    assert read_outbox(Folder(tmp_path)) == (Candidate("x = 1", None, changes=changes),)


def test_only_plain_files_of_the_outbox_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    (secret / "harness").mkdir(parents=True)
    (secret / "harness/harness.py").write_text("the key")
    outbox = tmp_path / "outbox"
    put(outbox, "b.py", "y = 2")
    put(outbox, "b.json", {"axis": "flat"})
    put(outbox, "../../evil/harness.py".replace("../", "_"), "z = 3")
    (outbox / "link").symlink_to(secret / "harness")
    (outbox / "file").mkdir()
    (outbox / "file/harness.py").symlink_to(secret / "harness/harness.py")
    (outbox / "pipe").mkdir()
    os.mkfifo(outbox / "pipe/harness.py")
    (outbox / "folder/harness.py").mkdir(parents=True)
    (outbox / "report.md").symlink_to(secret / "harness/harness.py")
    found = read_outbox(Folder(outbox))
    assert [candidate.source for candidate in found] == ["z = 3", "y = 2"]
    assert found[1].axis == "flat"
    assert read_report(Folder(outbox)) == ""
    put(outbox, "long.py", "#" * (2 * MOST_BYTES))
    assert max(len(each.source) for each in read_outbox(Folder(outbox))) == MOST_BYTES + 1
    away = Folder(tmp_path / "away")
    assert read_outbox(away) == ()
    away.outbox.symlink_to(outbox)
    assert read_outbox(away) == ()


@define
class Session:
    """A proposer that does ``work`` and proposes what is in the outbox then."""

    work: Callable[[Workspace], Any]
    note: str = ""
    writes_code: bool = False

    async def propose(self, workspace: Workspace) -> Proposal:
        self.work(workspace)
        return Proposal(read_outbox(workspace), Spent(calls=7))


def good(workspace: Workspace) -> None:
    put(workspace.outbox, "a/harness.py", h(f"TAG = {workspace.iteration}"))


def tampering(change: Callable[[Path], Any]) -> Callable[[Workspace], None]:
    def work(workspace: Workspace) -> None:
        good(workspace)
        change(workspace.root)

    return work


def write(name: str, text: str = "ruined") -> Callable[[Path], Any]:
    def change(root: Path) -> None:
        (root / name).chmod(0o600)
        (root / name).write_text(text)

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (write("archive/h0000/harness.py"), "archive/h0000/harness.py"),
        (write("state.json", "{}"), "state.json"),
        (write("digest.md"), "digest.md"),
        (lambda root: (root / "brief.md").unlink(), "brief.md"),
        (lambda root: (root / "notes.txt").write_text("x"), "notes.txt"),
        (lambda root: (root / "archive/h0001").mkdir(), "archive/h0001"),
        (lambda root: (root / "traces/t").symlink_to("/etc"), "traces/t"),
        (lambda root: (root / "outbox").rename(root / "out"), "out, out/a, out/a/harness.py"),
    ],
)
def test_a_session_that_changes_protected_files_is_refused(
    change: Callable[[Path], Any], named: str, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path)
    found = run(search(Session(tampering(change))), context, 2)
    assert (
        found[1].candidates == () and found[1].proposer_spent.calls == 7
    )  # it is paid for all the same
    assert f"; the proposer failed: it changed protected files: {named}" in found[1].accepted_reason
    root = tmp_path / "proposals/phase-000-iteration-002"
    assert (root / "brief.md").read_text() == "Change one mechanism."
    assert json.loads((root / "state.json").read_text())["accepted"] == "h0000"
    assert not (root / "notes.txt").exists() and (root / "outbox").is_dir()
    assert Archive.open(tmp_path)["h0000"].source == H0
    run(search(Session(good)), FakeContext(tmp_path, phase=1), 2)  # the next is as ever
    assert len(Archive.open(tmp_path).entries) == 2


def test_reports_are_kept_and_shown_to_later_sessions(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    def work(workspace: Workspace) -> None:
        reports = sorted((workspace.root / "reports").iterdir())
        seen.append({path.name: path.read_text() for path in reports})
        put(workspace.outbox, "report.md", f"Lesson {workspace.iteration}.\n")
        good(workspace)

    run(search(Session(work)), FakeContext(tmp_path), 3)
    run(search(Session(work)), FakeContext(tmp_path, phase=1), 2)
    run(search(Session(work)), FakeContext(tmp_path), 2)  # that phase again: it sees what it saw
    first, second = "phase-000-iteration-002.md", "phase-000-iteration-003.md"
    assert seen[:3] == [
        {},
        {first: "Lesson 2."},
        {first: "Lesson 2.", second: "Lesson 3."},
    ]
    assert seen[3] == {}


def test_a_session_begun_again_finds_the_same_files(tmp_path: Path) -> None:
    """Byte for byte: an agent's paid replies are found again by what they were asked with."""
    seen: list[dict[str, bytes]] = []

    def work(workspace: Workspace) -> None:
        files = sorted(path for path in workspace.root.rglob("*") if path.is_file())
        seen.append({str(path): path.read_bytes() for path in files})
        if len(seen) in (1, 4):
            (workspace.outbox / "half").mkdir()
            raise KeyboardInterrupt
        good(workspace)

    engine = search(Session(work))
    for _ in range(2):
        try:
            run(engine, FakeContext(tmp_path), 3)
        except KeyboardInterrupt:
            engine.restore(tmp_path, None)
    mark = engine.mark()
    with pytest.raises(KeyboardInterrupt):
        run(engine, FakeContext(tmp_path, phase=1), 2)
    engine.restore(tmp_path, mark)
    run(engine, FakeContext(tmp_path, phase=1), 2)
    assert len(seen) == 5
    assert seen[0] == seen[1] and seen[3] == seen[4]


def test_a_session_that_fails_and_changes_files_has_both_said_of_it(tmp_path: Path) -> None:
    @define
    class Failing(Session):
        async def propose(self, workspace: Workspace) -> Proposal:
            return evolve(await super().propose(workspace), failure="no more tokens")

    found = run(search(Failing(tampering(write("brief.md")))), FakeContext(tmp_path), 2)
    assert (
        "; the proposer failed: no more tokens; it changed protected files: brief.md"
        in found[1].accepted_reason
    )


def test_a_folder_and_a_file_of_one_name_are_two_candidates(tmp_path: Path) -> None:
    put(tmp_path, "x/harness.py", "a = 1")
    put(tmp_path, "x/metadata.json", {"axis": "folder"})
    put(tmp_path, "x.py", "b = 2")
    put(tmp_path, "x.json", {"axis": "file"})
    found = read_slots(tmp_path)
    assert {slot: (each.source, each.axis) for slot, each in found.items()} == {
        "x": ("a = 1", "folder"),
        "x.py": ("b = 2", "file"),
    }


def test_slots_are_read_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    written = [Candidate(f"x = {slot}", None) for slot in range(1, 13)]
    for slot, candidate in enumerate(written, 1):
        write_candidate(Folder(tmp_path), slot, candidate)
    assert list(read_outbox(Folder(tmp_path))) == written
