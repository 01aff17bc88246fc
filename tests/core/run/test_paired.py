"""Gains are paired by example, and what only measures is named once."""

from __future__ import annotations

import re
from pathlib import Path

import whale_core
from whale_core.run.ledger import MEASURING
from whale_core.run.paired import paired

SOURCES = Path(whale_core.__file__).parent


def test_means_are_paired_on_what_all_have() -> None:
    a, b, c = paired(
        {"y": 1.0, "x": 0.5, "a": 0.1}, {"x": 0.25, "y": 0.0}, {"y": 1, "x": 2, "b": 3}
    )
    assert (a.tolist(), b.tolist(), c.tolist()) == ([0.5, 1.0], [0.25, 0.0], [2, 1])
    assert [len(each) for each in paired({"x": 1.0}, {"y": 1.0})] == [0, 0]


def test_the_purposes_that_measure_are_listed_once() -> None:
    listed = re.compile(r"\(\"select\", \"test\"[,)]")
    found = [path.name for path in SOURCES.rglob("*.py") if listed.search(path.read_text())]
    assert found == ["ledger.py"]
    assert {"select", "test", "null", "probe"} == set(MEASURING)
