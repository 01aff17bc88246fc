"""The catalogue of edits as proposers use it: checked, and applied to archived harnesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Candidate, Edit
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.archive import Archive
from whale_metaharness.experience import has_edit
from whale_metaharness.members import MemberError, check_member, replace_members
from whale_metaharness.spaces import space_of
from whale_metaharness.workspace import State

Combine = Callable[[str, Mapping[str, str]], str | None]


def read_catalogue(setup: Setup, proposer: str) -> tuple[Edit, ...]:
    """Return the domain's catalogue for the proposer of that name.

    Raises:
        InputError: there is no domain, or an edit is not the source of the members it names.
    """
    if setup.domain is None:
        raise InputError(f"proposer {proposer} needs a domain")
    for edit in setup.domain.catalogue:
        try:
            for name, text in edit.members.items():
                check_member(name, text)
        except MemberError as error:
            raise InputError(f"catalogue edit {edit.name!r}: {error}") from None
    return tuple(setup.domain.catalogue)


def admission(archive: Archive, state: State) -> tuple[Callable[[str], bool], Combine]:
    """Return what says of a source whether the search space admits it, and what puts other members
    into a source: None if they do not fit (another proposer wrote it) or are not admitted."""
    space = space_of(state.space, state.members)
    incoming = archive[state.incoming].source
    made: dict[tuple[str, str], str | None] = {}

    def admits(source: str) -> bool:
        return space.refuse(source, incoming) is None

    def combine(source: str, members: Mapping[str, str]) -> str | None:
        key = source, repr(members)
        if key not in made:
            try:
                combined = replace_members(source, members)
                made[key] = combined if admits(combined) else None
            except MemberError:
                made[key] = None
        return made[key]

    return admits, combine


def applicable(parent: ArchiveEntry, catalogue: Sequence[Edit], combine: Combine) -> list[Edit]:
    """Return the edits that ``parent`` lacks and can take, in catalogue order."""
    return [
        edit
        for edit in catalogue
        if not has_edit(parent.source, edit) and combine(parent.source, edit.members) is not None
    ]


def edited(parent: ArchiveEntry, edits: Sequence[Edit], combine: Combine) -> Candidate | None:
    """Return ``parent`` with ``edits``; None where they do not go together."""
    source: str | None = parent.source
    for edit in edits:
        source = None if source is None else combine(source, edit.members)
    if source is None:
        return None
    return Candidate(
        source=source,
        parent=parent.id,
        axis=" + ".join(dict.fromkeys(edit.axis for edit in edits)),
        hypothesis=" ".join(edit.hypothesis for edit in edits),
        changes=f"{parent.id} with {' and '.join(edit.name for edit in edits)}",
    )
