"""The run folder and its commit protocol.

Data is written and fsynced first; then one journal line commits it and records the byte lengths of
all append-only files. After a crash those files are cut back to the lengths of the last line. One
controller per run: the folder is locked while it is open.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from whale_core.errors import Interrupted, RunFolderError
from whale_core.records import Json
from whale_core.run.journal import (
    FORMAT,
    JOURNAL,
    UNICODE,
    Entry,
    Recorded,
    Replay,
    read_journal,
    sealed,
)

LOCK = ".lock"
PLAN = "plan.json"
LEDGER = "ledger.jsonl"
ANSWERS = "answers.jsonl"  # what is asked once in the life of a run
STOPPED = "stopped.jsonl"  # what proposers' sessions were charged with that a stop of the run ended
CHECKS = "checks.jsonl"  # what proposers' sessions had found out about harnesses
DISK_TROUBLE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EIO,
    errno.EACCES,
    errno.EPERM,
}
FOLDERS = ("weights", "harnesses", "rollouts", "rows", "accepted")


class RunFolder:
    """An open, locked run folder. Use ``create`` or ``open``, and ``close`` it.

    ``entries`` are the committed blocks in order. While ``replaying``, ``append`` and ``commit``
    write nothing: what they would write is there already, and ``commit`` checks that it is the
    same. ``stop`` may be set at any time: the next block is the last.
    """

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self.stop = False
        self._lock = lock
        self._files: dict[str, IO[bytes]] = {}
        self._journal: IO[bytes] | None = None
        self._lengths: dict[str, int] = {}
        self._digests: dict[str, Any] = {}
        self._spans: dict[str, list[tuple[int, int, str]]] = {}  # of committed records
        self._check = ""
        self._befores: list[Mapping[str, int]] = []
        self._replay = Replay()
        self._spent_before = 0.0
        self._opened = time.monotonic()

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make a new run folder. Raises ``RunFolderError`` when ``path`` is not empty."""
        try:
            refuse_used(path)
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path, lock_folder(path))
            for name in FOLDERS:
                (path / name).mkdir()
        except OSError as error:
            raise RunFolderError(f"{path} cannot be made a run folder: {error}") from error
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run folder, read its journal, and drop what was never committed.

        Raises:
            RunFolderError: it is none, in use, damaged, or of another version. Nothing is changed.
        """
        if not (path / JOURNAL).is_file():
            never = ": a run that never began, delete it" if (path / LOCK).is_file() else ""
            raise RunFolderError(f"{path} is not a run folder, it has no {JOURNAL}{never}")
        folder = cls(path, lock_folder(path))
        try:
            lines, size, folder._check = read_journal(path / JOURNAL)
            folder._take(lines)
            folder._cut(size)
        except BaseException:
            folder.close()
            raise
        return folder

    @property
    def replaying(self) -> bool:
        """Whether the run is still going over blocks that were committed before it was stopped."""
        return len(self._replay) > 0

    @property
    def seconds(self) -> float:
        """How long this run has been worked on, pauses between interruption and resume left out."""
        return self._spent_before + time.monotonic() - self._opened

    def replay_from(self, index: int) -> None:
        """Have the blocks from ``entries[index]`` on met again instead of made anew."""
        self._replay = Replay(
            Recorded(entry, before)
            for entry, before in zip(self.entries[index:], self._befores[index:], strict=True)
        )

    def append(self, name: str, records: Iterable[Json]) -> None:
        """Append JSON lines to the file ``name``; they count once ``commit`` has been called."""
        if self.replaying:
            return
        file = self._file(name)
        digest = self._digests.setdefault(name, hashlib.sha256())
        for record in records:
            line = record_line(record)
            file.write(line)
            digest.update(line)

    def read(self, name: str) -> list[Json]:
        """Return the committed records of an append-only file."""
        spans = self._spans.get(name, [])
        return [record for span in spans for record in self._records(name, *span)]

    def recorded(self, event: str, name: str) -> list[Json] | None:
        """Return the records of the file ``name`` that the next block, an ``event``, committed.

        None when the run is past its record: then the block has to be made. ``commit`` goes on.
        """
        block = self._replay.peek(event)
        return None if block is None else self._records(name, *block.span(name), block.digest(name))

    def recorded_entry(self, event: str) -> Entry | None:
        """Return the journal line of the next block, an ``event``, or None past the record."""
        block = self._replay.peek(event)
        return None if block is None else block.entry

    def commit(self, event: str, **data: Json) -> Entry:
        """Fsync what was appended, then write the journal line that commits it; return the line.

        Raises:
            Interrupted: the run was asked to stop; the line is written.
            RunFolderError: a recorded block says something else.
        """
        if self.replaying:
            entry = self._replay.meet(event, data).entry
        else:
            self._befores.append(dict(self._lengths))
            entry = self._write({"event": event, **data})
            self.entries.append(entry)
        if self.stop:
            raise Interrupted(f"stopped after a finished block; continue: whale resume {self.path}")
        return entry

    def note(self, kind: str, **data: Json) -> None:
        """Write a journal line that is for the reader only, with what was appended."""
        self._write({"note": kind, **data})

    def close(self) -> None:
        """Close the files and give up the lock. Idempotent."""
        for file in (*self._files.values(), self._journal):
            if file is not None:
                with suppress(OSError):  # what cannot be written was never committed
                    file.close()
        self._files.clear()
        self._journal = None
        self._lock.close()

    def _write(self, line: Entry) -> Entry:
        before = dict(self._lengths)
        for name, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            self._lengths[name] = file.tell()
        first = {"format": FORMAT} if not self.entries else {}
        line = {**first, **line, "at_seconds": round(self.seconds, 3)}
        line["lengths"] = dict(self._lengths)
        line["digests"] = {name: made.hexdigest()[:16] for name, made in self._digests.items()}
        self._digests.clear()
        if self._journal is None:
            self._journal = (self.path / JOURNAL).open("ab")
            _sync(self.path)
        text, check = sealed(line, self._check)
        self._journal.write(text)
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self._check = check
        self._add_spans(line, before)
        return line

    def _add_spans(self, line: Entry, before: Mapping[str, int]) -> None:
        for name, digest in line["digests"].items():
            span = before.get(name, 0), line["lengths"][name], digest
            self._spans.setdefault(name, []).append(span)

    def _take(self, lines: Iterable[Entry]) -> None:
        for line in lines:
            if "event" in line:
                self.entries.append(line)
                self._befores.append(self._lengths)
            self._add_spans(line, self._lengths)
            self._lengths = line["lengths"]
            self._spent_before = float(line["at_seconds"])
        self._lengths = dict(self._lengths)

    def _cut(self, journal_size: int) -> None:
        """Cut the files back to the last line's lengths; nothing is changed if one is too short."""
        for name, length in self._lengths.items():
            file = self.path / name
            if not file.is_file() or file.stat().st_size < length:
                raise RunFolderError(f"{file} is missing or shorter than the journal says")
        os.truncate(self.path / JOURNAL, journal_size)
        for name, length in self._lengths.items():
            os.truncate(self.path / name, length)
        ours = [self.path / name for name in (LEDGER, ANSWERS, CHECKS, STOPPED)]
        for file in (*ours, *sorted((self.path / "rollouts").glob("phase-*.jsonl"))):
            if file.relative_to(self.path).as_posix() not in self._lengths:
                file.unlink(missing_ok=True)

    def _records(self, name: str, start: int, end: int, digest: str | None) -> list[Json]:
        if start == end:
            return []
        path = self.path / name
        with path.open("rb") as file:
            file.seek(start)
            text = file.read(end - start)
        if digest is not None and hashlib.sha256(text).hexdigest()[:16] != digest:
            raise RunFolderError(
                f"{path}, after byte {start}: not what the run wrote there; restore it from a copy"
            )
        try:
            return [json.loads(line) for line in text.split(b"\n")[:-1]]
        except ValueError as error:
            raise RunFolderError(f"{path}, after byte {start}: damaged ({error})") from error

    def _file(self, name: str) -> IO[bytes]:
        if name not in self._files:
            self._files[name] = (self.path / name).open("ab")
            _sync((self.path / name).parent)
        return self._files[name]


def record_line(record: Json) -> bytes:
    """Return a record as the line that ``append`` writes."""
    return (json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n").encode(*UNICODE)


def refuse_used(path: Path) -> None:
    """Raise ``RunFolderError`` when ``path`` is a file, or a folder that is not empty."""
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"run folder {path} is a file: choose another --run-dir")
    if path.is_dir() and any(path.iterdir()):
        on = f"continue it with `whale resume {path}`, or " if (path / JOURNAL).is_file() else ""
        raise RunFolderError(f"run folder {path} is not empty: {on}choose another --run-dir")


def errno_of(error: Exception) -> int:
    """Return the system's number of an error, 0 if none; libraries in Rust say it in words."""
    if isinstance(error, OSError):
        return error.errno or 0
    said = re.search(r"\(os error (\d+)\)", str(error))
    return int(said[1]) if said else 0


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


def write_json(path: Path, value: Mapping[str, Json]) -> None:
    """Write a JSON file atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def _sync(path: Path) -> None:
    """Have the file or folder written to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_folder(path: Path) -> IO[str]:
    """Lock a folder for this process, until the file returned is closed.

    Raises:
        RunFolderError: another process has locked it, or nothing can be written there.
    """
    try:
        lock = (path / LOCK).open("a")
    except OSError as error:
        raise RunFolderError(f"{path} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise RunFolderError(
            f"{path} is in use by another process: wait for it or stop it"
        ) from error
    return lock
