"""The workspace of one proposer session: files and folders, so that any program can be a proposer.

``docs/workspace.md`` lists them. All but ``outbox/`` is hashed before the session and compared
after it. The same state of the search makes the same files, byte for byte.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import cattrs
from attrs import define, field, frozen

from whale_core import roles
from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.records import Json
from whale_core.roles import Rejection
from whale_core.run.archive import ArchiveEntry, metadata_bytes
from whale_metaharness.archive import Archive, visible
from whale_metaharness.evidence import Evidence, digest, outcomes_table, trace_lines
from whale_metaharness.instructions import instructions
from whale_metaharness.lineage import difference

BULKY = ("archive", "traces")  # copies of what the run keeps elsewhere: not kept after a session
OUTBOX = "outbox"


@frozen
class State:
    """Where the search stands. Scores of this ``phase`` under ``weights_id`` are fresh, all others
    are history; ``accepted`` is the current best entry's id, ``incoming`` the phase's first."""

    cycle: int
    phase: int
    iteration: int
    count: int
    weights_id: str
    accepted: str
    incoming: str
    tie_breaks: tuple[str, ...]
    space: str
    max_source_bytes: int
    members: tuple[str, ...] = ()  # that may change, where the space is ``members``


@frozen
class Session:
    """What a workspace is made of: where the search stands, what may be seen, and what to say."""

    state: State
    brief: str
    space: str = "Everything."  # what the search space admits, in words
    evidence: Evidence = field(factory=Evidence)


async def _no_gates(source: str) -> Rejection | None:
    raise InputError("validate: this workspace has no gates")


async def _no_rehearsal(source: str, example: str) -> str:
    raise InputError("rehearse: this workspace has no recorded replies")


@define
class SearchWorkspace:
    """A proposer's view of the search (see ``whale_core.roles.Workspace``)."""

    root: Path
    brief: str
    instructions: str
    iteration: int
    count: int
    _validate: Callable[[str], Awaitable[Rejection | None]] = _no_gates
    _rehearse: Callable[[str, str], Awaitable[str]] = _no_rehearsal
    _mend: Callable[[], list[str]] = list

    @property
    def archive(self) -> Path:
        """What was tried before, to read."""
        return self.root / "archive"

    @property
    def outbox(self) -> Path:
        """Where candidates go, one folder each."""
        return self.root / OUTBOX

    async def validate(self, source: str) -> Rejection | None:
        """Send a candidate through all gates."""
        return await self._validate(source)

    async def rehearse(self, source: str, example: str) -> str:
        """Execute a candidate on the replies recorded for a shown example."""
        return await self._rehearse(source, example)

    def mend(self) -> list[str]:
        """Make protected files that the session changed, removed or added as they were; return
        their names."""
        return self._mend()


@contextmanager
def open_workspace(
    folder: Path,
    session: Session,
    validate: Callable[[str], Awaitable[Rejection | None]] = _no_gates,
    rehearse: Callable[[str, str], Awaitable[str]] = _no_rehearsal,
) -> Iterator[SearchWorkspace]:
    """Make the workspace of one iteration below the archive ``folder``.

    One that an interrupted try of the session left is replaced; what was in its outbox is kept
    beside it, as ``<name>.before-1`` and so on. Afterwards what is kept elsewhere too is removed;
    the rest, and what was proposed, stays.
    """
    state = session.state
    root = folder / "proposals" / f"phase-{state.phase:03d}-iteration-{state.iteration:03d}"
    _keep_outbox(root)
    _remove(root)
    (root / OUTBOX).mkdir(parents=True)
    told = instructions(session.space, session.brief).text
    _fill(root, folder, session, told)
    before = _protected(root)

    def mend() -> list[str]:
        after = _protected(root)
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        if changed:
            _restore(root, folder, session, told)
        return changed

    try:
        yield SearchWorkspace(
            root, session.brief, told, state.iteration, state.count, validate, rehearse, mend
        )
    finally:
        for name in BULKY:
            _remove(root / name)


def report_path(folder: Path, phase: int, iteration: int) -> Path:
    """Return where the report of an iteration's session is kept, below the archive ``folder``."""
    return folder / "reports" / f"phase-{phase:03d}-iteration-{iteration:03d}.md"


def budget_path(folder: Path, phase: int, iteration: int) -> Path:
    """Return where it is counted what an iteration's session has asked for, below the archive
    ``folder``: beside the workspace, so that no session can read or change it."""
    return folder / "proposals" / "budgets" / f"phase-{phase:03d}-iteration-{iteration:03d}.json"


def read_state(workspace: roles.Workspace) -> State:
    """Return where the search stands, from ``state.json``."""
    path = workspace.root / "state.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data.pop("instructions")
    return cattrs.structure(data, State)


def _fill(root: Path, folder: Path, session: Session, told: str) -> None:
    """Write every file but the outbox's."""
    state, evidence = session.state, session.evidence
    entries = visible(Archive.open(folder).entries)
    by_id = {entry.id: entry for entry in entries}
    for entry in entries:
        target = root / "archive" / entry.id
        target.mkdir(parents=True)
        _write(target / "harness.py", entry.source)
        _write(target / "metadata.json", metadata_bytes(entry))
        if entry.parent is not None:
            _write(target / "diff.patch", difference(entry, by_id.get(entry.parent)))
    (root / "archive").mkdir(exist_ok=True)
    (root / "traces").mkdir()
    for name, trajectories in evidence.traces.items():
        _write(root / "traces" / f"{name}.jsonl", "".join(trace_lines(trajectories, evidence)))
    (root / "reports").mkdir()
    for path in sorted((folder / "reports").glob("*.md")):
        if path.name < report_path(folder, state.phase, state.iteration).name:
            _write(root / "reports" / path.name, path.read_bytes())
    _write(root / "brief.md", session.brief)
    _write(root / "instructions.md", told)
    marked = cattrs.unstructure(state) | {"instructions": content_hash(told)}
    _write(root / "state.json", json.dumps(marked, indent=1, ensure_ascii=False) + "\n")
    _write(root / "history.jsonl", "".join(_history(entries, state)))
    _write(root / "outcomes.csv", outcomes_table(entries, evidence, state.phase))
    _write(root / "digest.md", digest(entries, evidence, state.accepted, state.tie_breaks))


def _history(entries: Sequence[ArchiveEntry], state: State) -> Iterator[str]:
    """Yield a line for each harness that was tried, in the order of the archive."""
    for entry in entries:
        last = entry.selection_scores[-1] if entry.selection_scores else None
        line: dict[str, Json] = {
            "id": entry.id,
            "phase": entry.phase,
            "iteration": entry.iteration,
            "parent": entry.parent,
            "axis": entry.axis,
            "hypothesis": entry.hypothesis,
            "changes": entry.changes,
            "rejection": None if entry.rejection is None else cattrs.unstructure(entry.rejection),
            "score": None
            if last is None
            else {
                "mean": last.score.mean if last.score.scored else None,
                "examples": len(last.score.rewards),
                "mean_calls": last.score.mean_calls,
                "metrics": dict(last.score.metrics),
                "fresh": entry.score_in(state.phase, state.weights_id) is not None,
            },
            "position_leak": dict(entry.position_leak),
            "accepted": entry.id == state.accepted,
        }
        yield json.dumps(line, ensure_ascii=False) + "\n"


def _protected(root: Path) -> Mapping[str, str]:
    """Return what must not change: each file's hash, and folders and links as what they are."""
    found: dict[str, str] = {}
    for where, folders, files in os.walk(root):
        place = Path(where)
        if place == root:
            if OUTBOX in folders and not (root / OUTBOX).is_symlink():
                folders.remove(OUTBOX)
            else:
                found[OUTBOX] = "gone"
        for name in sorted([*folders, *files]):
            path = place / name
            mode = path.lstat().st_mode
            kind = content_hash(path.read_bytes()) if stat.S_ISREG(mode) else str(stat.S_IFMT(mode))
            found[str(path.relative_to(root))] = kind
    return found


def _restore(root: Path, folder: Path, session: Session, told: str) -> None:
    """Make everything but the outbox as it was."""
    for path in root.iterdir():
        if path.name != OUTBOX or path.is_symlink() or not path.is_dir():
            _remove(path)
    (root / OUTBOX).mkdir(exist_ok=True)
    _fill(root, folder, session, told)


def _write(path: Path, content: str | bytes) -> None:
    """Write a file that is read-only afterwards: a session that means no harm leaves it alone."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    path.write_bytes(data)
    path.chmod(0o444)


def _keep_outbox(root: Path) -> None:
    """Move an outbox with something in it out of the way: a person's work may be in it."""
    outbox = root / OUTBOX
    if outbox.is_symlink() or not outbox.is_dir() or not any(outbox.iterdir()):
        return
    number = 1
    while (kept := root.with_name(f"{root.name}.before-{number}")).exists():
        number += 1
    outbox.rename(kept)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
