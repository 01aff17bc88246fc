"""The catalogue of edits as proposers use it: checked, and applied to archived harnesses."""

from __future__ import annotations

from collections.abc import Sequence

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Candidate, Edit
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.experience import has_edit
from whale_metaharness.members import MemberError, check_member, replace_members


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


def lacking(parent: ArchiveEntry, catalogue: Sequence[Edit]) -> list[Edit]:
    """Return the edits that ``parent`` does not have, in catalogue order."""
    return [edit for edit in catalogue if not has_edit(parent.source, edit)]


def edited(parent: ArchiveEntry, edits: Sequence[Edit]) -> Candidate | None:
    """Return ``parent`` with ``edits``; None where one does not fit (another proposer's parent)."""
    source = parent.source
    try:
        for edit in edits:
            source = replace_members(source, edit.members)
    except MemberError:
        return None
    return Candidate(
        source=source,
        parent=parent.id,
        axis=" + ".join(dict.fromkeys(edit.axis for edit in edits)),
        hypothesis=" ".join(edit.hypothesis for edit in edits),
        changes=f"{parent.id} with {' and '.join(edit.name for edit in edits)}",
    )
