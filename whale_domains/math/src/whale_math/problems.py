"""Problems: the bundled ones, files, and what makes two the same."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import zstandard
from attrs import frozen

from whale_core.keys import content_hash
from whale_core.records import Example

BLANKS = re.compile(r"\s+")


@frozen
class Problem:
    """One problem with its reference answer.

    ``group`` names where it comes from: no group is in two splits. ``source`` is what results are
    told by where there are several: the level of a generated problem, the name of a benchmark.
    """

    text: str
    answer: str
    group: str
    source: str = ""

    @property
    def key(self) -> str:
        """What makes two problems the same: the text, blanks and case aside."""
        return BLANKS.sub(" ", self.text).strip().casefold()

    def example(self) -> Example:
        """Return the problem as a task; its id tells nothing of the answer."""
        return Example(
            id="m" + content_hash(self.key, length=12),
            content={"problem": self.text, "answer": self.answer},
            group=self.group,
            source=self.source,
        )


def bundled(name: str, lowest: int, highest: int) -> list[Problem]:
    """Return the generated problems ``problems`` or ``tuning`` of the levels asked for."""
    path = resources.files("whale_math") / "data" / f"{name}.jsonl.zst"
    text = zstandard.ZstdDecompressor().decompress(path.read_bytes()).decode()
    rows = [json.loads(line) for line in text.splitlines()]
    return [
        Problem(row["problem"], row["answer"], row["group"], f"level {row['level']}")
        for row in rows
        if lowest <= row["level"] <= highest
    ]


def data_file(name: str) -> Path:
    """Return the path of a bundled file."""
    return Path(str(resources.files("whale_math") / "data" / name))


def distinct(problems: Sequence[Problem]) -> list[Problem]:
    """Return one problem per text, whatever the order of ``problems``; sorted by text."""
    kept: dict[str, Problem] = {}
    for problem in problems:
        kept[problem.key] = preferred(kept.get(problem.key, problem), problem)
    return [kept[key] for key in sorted(kept)]


def preferred(one: Problem, other: Problem) -> Problem:
    """Return which of two problems of one key is kept, whatever their order."""
    return other if (other.text, other.answer) < (one.text, one.answer) else one
