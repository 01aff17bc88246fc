"""Rollouts kept between commands, under everything that defines them (``identity``).

One file of JSON lines for each identity, in the user's cache folder; a line for each example (with
the hash of its content) and draw.
What was not scored is not kept. A line that a stop cut off is not one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import define, field

from whale_core.cache import cache_folder
from whale_core.errors import RunFolderError
from whale_core.evidence.identity import Identity
from whale_core.keys import json_hash
from whale_core.records import Example, Json, Outcome, Trajectory


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
            lines.append(json.dumps({**line, "example": example.id}) + "\n")
        path = self._path(identity)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(b"\n" if _cut(path) else b"")
                file.write("".join(lines).encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunFolderError(
                f"{path} cannot be written ({error.strerror}): free some space, or set WHALE_CACHE "
                "to another folder"
            ) from error

    def _lines(self, identity: Identity) -> dict[tuple[str, int], float]:
        path = self._path(identity)
        if path.name not in self._read:
            found: dict[tuple[str, int], float] = {}
            text = path.read_bytes() if path.is_file() else b""
            for line in text.split(b"\n"):
                try:
                    each: Json = json.loads(line)
                    found[each["content"], each["draw"]] = float(each["reward"])
                except (ValueError, KeyError, TypeError):
                    continue  # cut off, or empty: it is made again
            self._read[path.name] = found
        return self._read[path.name]

    def _path(self, identity: Identity) -> Path:
        return self.folder / f"{identity.hash}.jsonl"


def user_cells() -> Cells:
    """Return the cache in the user's cache folder."""
    return Cells(cache_folder() / "matrix")


def _content(example: Example) -> str:
    return json_hash([example.id, dict(example.content)])


def _cut(path: Path) -> bool:
    """Say whether the file's last line was cut off."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
