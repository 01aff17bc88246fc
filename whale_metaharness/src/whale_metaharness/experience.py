"""What the archive teaches about the catalogue: which edits helped the harnesses they changed.

Edits are recognised by what the sources contain, so an edit counts however it got there: applied
alone, with another, by crossover, or written by another proposer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from attrs import frozen

from whale_core.roles import Edit
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.acceptance import merits
from whale_metaharness.archive import Archive
from whale_metaharness.members import MemberError, members
from whale_metaharness.normalise import normalised_hash


@frozen
class Experience:
    """How an edit did: ``gains`` of ``trials`` (a tie is half a gain)."""

    trials: int = 0
    gains: float = 0.0

    def weight(self) -> float:
        """Return the selection weight: the squared gain rate, with one trial of rate 1/2 added.

        So an untried edit has 1/4, one gain makes it 9/16, one loss 1/16.
        """
        return ((self.gains + 0.5) / (self.trials + 1)) ** 2


def learn(
    archive: Archive, catalogue: Sequence[Edit], tie_breaks: Sequence[str]
) -> dict[str, Experience]:
    """Return the experience with each edit, by name, over all cycles.

    A trial is an entry that has an edit its parent lacks. It gains if it was better than its parent
    in the same phase (reward, then tie-breaks) and loses if a gate rejected it. Duplicates, and
    entries whose parent has no score in that phase, say nothing.
    """
    result = {edit.name: Experience() for edit in catalogue}
    entries = {entry.id: entry for entry in archive.entries}
    for entry in archive.entries:
        parent = entries.get(entry.parent or "")
        gain = None if parent is None else _gain(entry, parent, tie_breaks)
        if parent is None or gain is None:
            continue
        for edit in catalogue:
            if has_edit(entry.source, edit) and not has_edit(parent.source, edit):
                old = result[edit.name]
                result[edit.name] = Experience(old.trials + 1, old.gains + gain)
    return result


def has_edit(source: str, edit: Edit) -> bool:
    """Say whether a harness has all members of ``edit``, up to comments and layout."""
    present = member_hashes(source)
    return all(present.get(name) == normalised_hash(text) for name, text in edit.members.items())


@lru_cache(maxsize=2048)
def member_hashes(source: str) -> Mapping[str, str]:
    """Return the normalised hash of each member of ``class Harness``; none if it has none."""
    try:
        return {name: normalised_hash(member.text) for name, member in members(source).items()}
    except (MemberError, SyntaxError, RecursionError):
        return {}  # rejected at a gate: nothing to learn from


def _gain(entry: ArchiveEntry, parent: ArchiveEntry, tie_breaks: Sequence[str]) -> float | None:
    """Return 1, 1/2 or 0 as ``entry`` was better than, like, or worse than its parent."""
    if entry.rejection is not None:
        return None if entry.rejection.gate == "duplicate" else 0.0
    for record in entry.selection_scores:
        before = parent.score_in(record.phase, record.score.weights_id)
        if before is not None and before.scored and record.score.scored:
            ours, theirs = merits(record.score, tie_breaks), merits(before, tie_breaks)
            return 0.5 if ours == theirs else float(ours > theirs)
    return None
