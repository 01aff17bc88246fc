from __future__ import annotations

import time

from whale_core.roles import Rejection
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.lineage import nearest


def entry(number: int, source: str, refused: bool = False) -> ArchiveEntry:
    rejection = Rejection("smoke", "it crashed") if refused else None
    return ArchiveEntry(f"h{number:04d}", source, 0, 1, 2, rejection=rejection)


def test_the_nearest_has_the_largest_share_of_lines() -> None:
    entries = [entry(0, "a\nb\nc\nd"), entry(1, "a\nb\nx\ny"), entry(2, "a\nb\nc\nd\ne\nf\ng")]
    assert nearest("a\nb\nc\nz", entries) == "h0000"
    assert nearest("d\nc\nb\na", entries) == "h0000"  # wherever they stand
    assert nearest("x\ny\nz", entries) == "h0001"
    assert nearest("a\nb\nc\nd", [*entries, entry(3, "a\nb\nc\nd")]) == "h0003"
    assert nearest("a", []) is None and nearest("", [entry(0, "")]) == "h0000"


def test_what_was_refused_is_no_parent_where_there_is_another() -> None:
    entries = [entry(0, "a\nb\nc"), entry(1, "x\ny\nz", refused=True)]
    assert nearest("x\ny\nz", entries) == "h0000"
    assert nearest("x\ny\nz", entries[1:]) == "h0001"


def test_repeated_lines_take_no_time() -> None:
    """A model that repeats itself writes such sources; the search waits for the answer."""
    source = "        pass\n" * 5000
    entries = [entry(number, source + f"x = {number}\n") for number in range(20)]
    started = time.process_time()
    assert nearest(source + "y\n", entries) == "h0019"
    assert time.process_time() - started < 2
