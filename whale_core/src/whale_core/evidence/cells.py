"""Rollouts kept between commands, under everything that defines them (``identity``).

One file of JSON lines for each identity, in the user's cache folder; a line for each example (with
the hash of its content) and draw.
What was not scored is not kept. A line that a stop cut off is not one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import define, field

from whale_core.cache import cache_folder
from whale_core.evidence.identity import Identity
from whale_core.evidence.lines import append_lines, read_lines
from whale_core.keys import json_hash
from whale_core.records import Example, Outcome, Trajectory


@define
class Cells:
    """Reads and adds to the cache in ``folder``; ``cells()`` opens the user's."""

    folder: Path
    _read: dict[str, dict[tuple[str, int], float]] = field(factory=dict, init=False)

    def rewards(self, identity: Identity, example: Example) -> Mapping[int, float]:
        """Return the kept rewards of an example by draw."""
        content = _content(example)
        return {draw: r for (c, draw), r in self._lines(identity).items() if c == content}

    def keep(self, identity: Identity, made: Iterable[tuple[Example, Trajectory]]) -> None:
        """Add the scored ones of ``made`` (all of this identity), through to the disk.

        Raises:
            RunFolderError: the cache cannot be written.
        """
        known, lines = self._lines(identity), []
        for example, trajectory in made:
            if trajectory.outcome is Outcome.NOT_SCORED:
                continue
            key = _content(example), trajectory.key.draw
            known[key] = trajectory.reward
            line = {"content": key[0], "draw": key[1], "reward": trajectory.reward}
            lines.append(json.dumps({**line, "example": example.id}))
        append_lines(self._path(identity), lines)

    def _lines(self, identity: Identity) -> dict[tuple[str, int], float]:
        path = self._path(identity)
        if path.name not in self._read:
            found: dict[tuple[str, int], float] = {}
            for each in read_lines(path):
                try:
                    found[each["content"], each["draw"]] = float(each["reward"])
                except (ValueError, KeyError, TypeError):
                    continue  # not as it is written here: made again
            self._read[path.name] = found
        return self._read[path.name]

    def _path(self, identity: Identity) -> Path:
        return self.folder / f"{identity.hash}.jsonl"


def user_cells() -> Cells:
    """Return the cache in the user's cache folder."""
    return Cells(cache_folder() / "matrix")


def _content(example: Example) -> str:
    return json_hash([example.id, dict(example.content)])
