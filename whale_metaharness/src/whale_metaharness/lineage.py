"""Where a candidate comes from, worked out from the sources: its parent and what it changes."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from whale_core.run.archive import ArchiveEntry
from whale_metaharness.experience import member_hashes


def nearest(source: str, entries: Sequence[ArchiveEntry]) -> str | None:
    """Return the id of the archived harness most like ``source``: the one with which it has the
    largest share of lines in common, wherever they stand, the newest of equals; None for an empty
    archive. One that a gate refused is taken only where there is no other."""
    best, most = None, -1.0
    lines = Counter(source.splitlines())
    for entry in [e for e in entries if e.rejection is None] or entries:
        theirs = Counter(entry.source.splitlines())
        both = lines.total() + theirs.total()
        share = 2 * (lines & theirs).total() / both if both else 1.0
        if share >= most:
            best, most = entry.id, share
    return best


def difference(entry: ArchiveEntry, parent: ArchiveEntry | None) -> str:
    """Return the unified diff from the parent's source to the entry's; empty without a parent."""
    if parent is None:
        return ""
    lines = difflib.unified_diff(
        parent.source.splitlines(),
        entry.source.splitlines(),
        f"{parent.id}/harness.py",
        f"{entry.id}/harness.py",
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines)


def changes_between(source: str, parent: ArchiveEntry | None) -> str:
    """Say which members of ``class Harness`` are new, changed or gone; empty without a parent."""
    if parent is None:
        return ""
    ours, theirs = member_hashes(source), member_hashes(parent.source)
    kinds = {
        "new": [name for name in ours if name not in theirs],
        "changed": [name for name in ours if name in theirs and ours[name] != theirs[name]],
        "gone": [name for name in theirs if name not in ours],
    }
    said = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)
    return f"{parent.id} with other members ({said})" if said else f"{parent.id} with other code"
