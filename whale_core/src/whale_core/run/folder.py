"""The run folder and its commit protocol.

Data is written and fsynced first; then one journal line commits it and records the byte lengths of
all append-only files. After a crash those files are cut back to the lengths of the last line that
counts. One controller per run: the folder is locked while it is open.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from whale_core.errors import RunFolderError
from whale_core.records import Json

FORMAT = 1
JOURNAL = "journal.jsonl"


class RunFolder:
    """An open, locked run folder. Use ``create`` or ``open``, and ``close`` it."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self.entries: list[dict[str, Json]] = []
        self._lock = lock
        self._files: dict[str, IO[bytes]] = {}
        self._lengths: dict[str, int] = {}

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make a new run folder. Raises ``RunFolderError`` when ``path`` is not empty."""
        if path.exists() and any(path.iterdir()):
            raise RunFolderError(
                f"{path} is not empty: continue that run with `whale resume {path}`, "
                "or choose another --run-dir"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path, _locked(path))
            for name in ("weights", "harnesses", "rollouts", "rows"):
                (path / name).mkdir()
        except OSError as error:
            raise RunFolderError(f"{path} cannot be made a run folder: {error}") from error
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run folder and read its journal (an unfinished last line is dropped)."""
        journal = path / JOURNAL
        if not journal.is_file():
            raise RunFolderError(f"{path} is not a run folder: it has no {JOURNAL}")
        folder = cls(path, _locked(path))
        try:
            folder.entries = _read_journal(journal)
        except RunFolderError:
            folder.close()
            raise
        return folder

    def append(self, name: str, records: Iterable[Json]) -> None:
        """Append JSON lines to the file ``name``; they count once ``commit`` has been called."""
        file = self._file(name)
        for record in records:
            file.write(
                json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            )

    def read(self, name: str) -> list[Json]:
        """Return the committed records of an append-only file."""
        path = self.path / name
        lines = path.read_bytes().splitlines() if path.is_file() else []
        return [json.loads(line) for line in lines]

    def commit(self, event: str, **data: Json) -> dict[str, Json]:
        """Fsync what was appended, then write the journal line that commits it; return the line."""
        for name, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            self._lengths[name] = file.tell()
        entry: dict[str, Json] = {"event": event, **data, "lengths": dict(self._lengths)}
        if not self.entries:
            entry = {"format": FORMAT, **entry}
        with (self.path / JOURNAL).open("ab") as journal:
            journal.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
            journal.flush()
            os.fsync(journal.fileno())
        self.entries.append(entry)
        return entry

    def rewind(self, keep: int) -> None:
        """Drop all journal entries after the first ``keep`` and cut the files back to match.

        Raises ``RunFolderError``, before anything is changed, when a file is shorter than recorded.
        """
        self.entries = self.entries[:keep]
        lengths = self.entries[-1]["lengths"] if self.entries else {}
        for name, length in lengths.items():
            file = self.path / name
            if not file.is_file() or file.stat().st_size < length:
                raise RunFolderError(f"{file} is missing or shorter than the journal says")
        text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in self.entries)
        write_atomically(self.path / JOURNAL, lambda part: part.write_text(text, encoding="utf-8"))
        for name, length in lengths.items():
            os.truncate(self.path / name, length)
        for file in [self.path / "ledger.jsonl", *sorted((self.path / "rollouts").glob("*.jsonl"))]:
            if file.is_file() and file.relative_to(self.path).as_posix() not in lengths:
                file.unlink()
        self._lengths = dict(lengths)

    def close(self) -> None:
        """Close the files and give up the lock. Idempotent."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._lock.close()

    def _file(self, name: str) -> IO[bytes]:
        if name not in self._files:
            self._files[name] = (self.path / name).open("ab")
        return self._files[name]


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Have ``write`` make a sibling part file, then fsync and rename it to ``path``."""
    part = path.with_name(f".{path.name}.part")
    write(part)
    _sync(part)
    part.replace(path)
    _sync(path.parent)


def publish_folder(part: Path, final: Path) -> None:
    """Rename a completely written folder to its final name, through to the disk.

    A folder of that name is left from a run that was stopped before its journal line.
    """
    for file in part.iterdir():
        _sync(file)
    _sync(part)
    if final.is_dir():
        shutil.rmtree(final)
    part.replace(final)
    _sync(final.parent)


def _sync(path: Path) -> None:
    """Have the file or folder written to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def optimizer_folder(weights: Path) -> Path:
    """Return where the optimizer state that belongs to a weights folder lies."""
    return weights.with_name(f"{weights.name}-optimizer")


def write_json(path: Path, value: Mapping[str, Json]) -> None:
    """Write a JSON file atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def _locked(path: Path) -> IO[str]:
    lock = (path / ".lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise RunFolderError(
            f"{path} is in use by another process: wait for it or stop it"
        ) from error
    return lock


def _read_journal(path: Path) -> list[dict[str, Json]]:
    entries: list[dict[str, Json]] = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            entries.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            if number == len(lines):  # no newline after it: the write was cut short
                break
            raise RunFolderError(
                f"{path}, line {number}: not a JSON line ({error}); the journal was changed"
            ) from error
    if not entries:
        raise RunFolderError(f"{path} is empty: the run never started; start it anew elsewhere")
    written = entries[0].get("format")
    if written != FORMAT:
        raise RunFolderError(
            f"{path} has run-folder format {written}, this version reads format {FORMAT}: "
            "use the version that wrote it"
        )
    return entries
