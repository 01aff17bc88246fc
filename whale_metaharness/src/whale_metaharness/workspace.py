"""The workspace of one proposer session: folders and files, so that any program can be a proposer.

- ``archive/``: a copy of the archive (``h0000/harness.py``, ``h0000/metadata.json``, …), removed
  after the session;
- ``outbox/``: to be filled with ``<slot>/harness.py`` and ``<slot>/metadata.json`` (parent, axis,
  hypothesis, changes);
- ``brief.md``: what may change, and what is known about the task;
- ``state.json``: where the search stands.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cattrs
from attrs import define, frozen

from whale_core import roles
from whale_core.records import Json
from whale_core.roles import Candidate


@frozen
class State:
    """Where the search stands. Scores of this ``phase`` under ``weights_id`` are fresh, all others
    are history; ``accepted`` is the current best entry's id."""

    cycle: int
    phase: int
    iteration: int
    count: int
    weights_id: str
    accepted: str
    tie_breaks: tuple[str, ...]
    space: str
    max_source_bytes: int


@define
class SearchWorkspace:
    """A proposer's view of the search (see ``whale_core.roles.Workspace``)."""

    archive: Path
    outbox: Path
    brief: str
    iteration: int
    count: int


@contextmanager
def open_workspace(archive: Path, state: State, brief: str) -> Iterator[SearchWorkspace]:
    """Make the workspace of one iteration below the archive folder, in place of an older one.

    Afterwards the copy of the archive is removed; what was proposed stays.
    """
    root = archive / "proposals" / f"phase-{state.phase:03d}-iteration-{state.iteration:03d}"
    shutil.rmtree(root, ignore_errors=True)
    (root / "outbox").mkdir(parents=True)
    (root / "archive").mkdir()
    for entry in sorted(archive.glob("h*[0-9]")):
        shutil.copytree(entry, root / "archive" / entry.name)
    (root / "brief.md").write_text(brief, encoding="utf-8")
    _write_json(root / "state.json", cattrs.unstructure(state))
    try:
        yield SearchWorkspace(
            root / "archive", root / "outbox", brief, state.iteration, state.count
        )
    finally:
        shutil.rmtree(root / "archive", ignore_errors=True)


def read_state(workspace: roles.Workspace) -> State:
    """Return where the search stands, from ``state.json``."""
    path = workspace.outbox.parent / "state.json"
    return cattrs.structure(json.loads(path.read_text(encoding="utf-8")), State)


def write_candidate(workspace: roles.Workspace, slot: int, candidate: Candidate) -> None:
    """Put a candidate into the outbox, as ``candidate-<slot>``."""
    folder = workspace.outbox / f"candidate-{slot}"
    folder.mkdir(parents=True)
    (folder / "harness.py").write_bytes(candidate.source.encode())
    metadata = cattrs.unstructure(candidate)
    del metadata["source"]
    _write_json(folder / "metadata.json", metadata)


def read_outbox(workspace: roles.Workspace) -> tuple[Candidate, ...]:
    """Return the candidates of the outbox, by slot name.

    Bad metadata costs a candidate its description, not its evaluation: ``changes`` says so. Bytes
    that are not UTF-8 become lone surrogates, which the gate ``size`` refuses.
    """
    slots = sorted(path.parent for path in workspace.outbox.glob("*/harness.py"))
    return tuple(read_candidate(slot) for slot in slots)


def read_candidate(slot: Path) -> Candidate:
    """Return the candidate in the folder ``slot``, read as leniently as ``read_outbox`` says."""
    source = (slot / "harness.py").read_bytes().decode("utf-8", "surrogateescape")
    try:
        data = json.loads((slot / "metadata.json").read_text(encoding="utf-8"))
        return cattrs.structure({"parent": None, **data, "source": source}, Candidate)
    except Exception as error:  # written by a model: anything can be wrong with it
        return Candidate(source, None, changes=f"metadata.json is unusable: {type(error).__name__}")


def _write_json(path: Path, data: Json) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
