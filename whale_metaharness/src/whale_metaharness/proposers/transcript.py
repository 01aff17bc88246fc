"""The transcript of a proposer's session: JSON lines beside its workspace, on disk before use.

A session that was killed is begun again with the same workspace. It then makes the same requests,
and takes from here what was answered to them: nothing is paid twice, and all that was paid counts,
whether it is used again or not. What gates and rehearsals found is taken from here as well.

Lines: ``begin``; ``request`` (the turns since the last one, before it is sent); ``reply`` (an
answer and its cost; without ``raw`` it could not be used); ``failure`` (no answer); ``check`` and
``try`` (of a source, by its hash); ``end``. Keys and headers are in none of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import IO

import cattrs
from attrs import asdict

from whale_core.errors import RunFolderError
from whale_core.records import Json, Spent
from whale_core.roles import Workspace

FOLDER = "transcripts"


def transcript_path(workspace: Workspace) -> Path:
    """Return where the transcript of a workspace's session is: beside it, so that no session can
    read or change it."""
    return workspace.root.parent / FOLDER / f"{workspace.root.name}.jsonl"


def spent_in(path: Path) -> Spent:
    """Return what the session with the transcript ``path``, if there is one, has paid."""
    return _spent(_read(path)[0]) if path.is_file() else Spent()


def spent_by_others(
    own: Path, folder: Path, pattern: str, spent_in: Callable[[Path], Spent]
) -> Spent:
    """Return what the run's other sessions have paid: those with a file of accounts that is not
    ``own`` and matches ``pattern`` in ``folder``."""
    others = (path for path in sorted(folder.glob(pattern)) if path != own)
    return sum(map(spent_in, others), Spent())


class Transcript:
    """The lines of one session. A line is on disk when the method that writes it returns.

    Raises:
        RunFolderError: the file was changed.
        OSError: it cannot be written; nothing may be bought then.
    """

    def __init__(self, path: Path) -> None:
        """Open the transcript at ``path``; what another try of the session left is kept."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lines, size = _read(path) if path.is_file() else ([], 0)
        self._file: IO[bytes] = path.open("ab")
        self._file.truncate(size)
        _sync_folder(path.parent)

    def add(self, kind: str, **data: Json) -> None:
        """Write a line."""
        line = {"kind": kind, **data}
        self._file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._lines.append(line)

    def replies(self, request: str) -> list[dict[str, Json]]:
        """Return the lines of the answers to a request, by its hash."""
        return [e for e in self._lines if e["kind"] == "reply" and e.get("request") == request]

    def found(self, kind: str, **key: Json) -> Mapping[str, Json] | None:
        """Return the line of this kind that says ``key``, if there is one."""
        for line in self._lines:
            if line["kind"] == kind and all(line.get(name) == key[name] for name in key):
                return line
        return None

    def reply(self, request: str, raw: Json, spent: Spent, reason: str = "") -> None:
        """Write down an answer and its cost; ``raw`` is None if it could not be used."""
        self.add("reply", request=request, raw=raw, spent=asdict(spent), reason=reason)

    @property
    def spent(self) -> Spent:
        """What the session has paid so far, all tries of it together."""
        return _spent(self._lines)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _spent(lines: object) -> Spent:
    costs = (
        cattrs.structure(line["spent"], Spent)
        for line in lines  # type: ignore[attr-defined]
        if line["kind"] == "reply"
    )
    return reduce(Spent.__add__, costs, Spent())


def _read(path: Path) -> tuple[list[dict[str, Json]], int]:
    """Return the lines of a transcript and their length; an unfinished last one is left out."""
    text = path.read_bytes()
    size = text.rfind(b"\n") + 1
    lines = []
    for number, line in enumerate(text[:size].split(b"\n")[:-1], 1):
        try:
            data = json.loads(line)
            data["kind"]
            if data["kind"] == "reply":
                cattrs.structure(data["spent"], Spent)
        except Exception as error:
            raise RunFolderError(
                f"{path}, line {number}: not what a session wrote; restore it from a copy, or "
                "delete the file: what it holds is then bought again"
            ) from error
        lines.append(data)
    return lines, size


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
