"""A workspace of the search for tests of proposers, with some harnesses in its archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve
from metaharness_fakes import H0, score_of

from whale_core.roles import Workspace
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.archive import Archive
from whale_metaharness.workspace import Session, State, open_workspace

STATE = State(0, 1, 2, 3, "w0", "h0000", "h0000", ("format_rate",), "full", 65_536)


def make_archive(
    folder: Path, sources: Sequence[str] = (H0,), phase: int = 1, iteration: int = 1
) -> Archive:
    """Add these sources to the archive of ``folder``, each scored in that iteration."""
    archive = Archive.open(folder)
    for source in sources:
        name = archive.next_id()
        archive.add(ArchiveEntry(name, source, 0, phase, iteration))
        archive.record(name, score_of(0.25), cycle=0, phase=phase, iteration=iteration)
    return archive


@contextmanager
def opened(folder: Path, **facts: object) -> Iterator[Workspace]:
    """Open the workspace of an iteration over the archive of ``folder``."""
    session = Session(evolve(STATE, **facts), "Change one mechanism.")
    with open_workspace(folder, session) as workspace:
        yield workspace
