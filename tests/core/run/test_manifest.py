"""A resumed run goes on only where it began; what differs is named, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from whale_core.errors import RunFolderError
from whale_core.run.manifest import check_manifest


def test_only_the_fields_that_differ_are_told() -> None:
    then = {"engine": {"model": "tiny", "threads": 1, "gone": 3}, "jail": "bwrap"}
    now = {"engine": {"model": "tiny", "threads": 2, "new": 4}, "jail": "bwrap"}
    with pytest.raises(RunFolderError) as raised:
        check_manifest(Path("mine"), then, now)
    assert str(raised.value).startswith(
        "mine: engine differs from when the run was started "
        "({'threads': 1, 'gone': 3} then, {'threads': 2, 'new': 4} now): "
    )


def test_a_field_that_is_no_mapping_is_told_whole() -> None:
    with pytest.raises(RunFolderError, match=r"\(None then, bwrap now\)"):
        check_manifest(Path("mine"), {}, {"jail": "bwrap"})
