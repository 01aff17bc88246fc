"""The archive of all harnesses of a run, on disk, over all cycles.

Its format is the core's (``whale_core.run.archive``). Folders and files appear whole (written
beside, then renamed). A score holds for the weights and the phase it was measured in; under other
weights it is stale: history for proposers, never a reason to accept.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve

from whale_core.errors import RunFolderError
from whale_core.roles import Score
from whale_core.rollout.reasons import without_messages
from whale_core.run.archive import (
    SELECTION,
    ArchiveEntry,
    ScoreRecord,
    entry_folders,
    entry_id,
    metadata_bytes,
    read_entry,
)
from whale_metaharness.normalise import normalised_hash


class Archive:
    """All entries in order of their ids. Every change is on disk when its method returns."""

    def __init__(self, folder: Path, entries: Sequence[ArchiveEntry] = ()) -> None:
        self._folder = folder
        self._entries = list(entries)

    @classmethod
    def open(cls, folder: Path) -> Archive:
        """Load the archive of ``folder``; a folder without entries is an empty archive.

        Raises:
            RunFolderError: An entry is missing, damaged or was edited by hand.
        """
        return cls(folder, _read_entries(folder, entry_folders(folder), None))

    @classmethod
    def restore(cls, folder: Path, mark: Mapping[str, int]) -> Archive:
        """Load the archive as it was at ``mark``; entries and scores added since are dropped.

        What is beyond the mark is not looked at, so this may be interrupted and done again.

        Raises:
            RunFolderError: The archive is damaged or has less than ``mark`` says.
        """
        found = entry_folders(folder)
        if len(found) < mark["entries"]:
            raise RunFolderError(
                f"{folder}: the archive has {len(found)} harnesses, fewer than the journal's "
                f"{mark['entries']}"
            )
        kept, dropped = found[: mark["entries"]], found[mark["entries"] :]
        archive = cls(folder, _read_entries(folder, kept, mark["scores"]))
        for entry in archive.entries:
            archive._rewrite(entry)
        _remove_drafts(folder)
        for path in dropped:  # in one move each: half an entry could not be read again
            path.rename(path.with_suffix(".tmp"))
        _remove_drafts(folder)
        return archive

    @property
    def entries(self) -> tuple[ArchiveEntry, ...]:
        """All entries, rejected ones included."""
        return tuple(self._entries)

    def __getitem__(self, identifier: str) -> ArchiveEntry:
        """Return the entry called ``identifier``; raises KeyError where there is none."""
        for entry in self._entries:
            if entry.id == identifier:
                return entry
        raise KeyError(identifier)

    def __contains__(self, identifier: object) -> bool:
        """Say whether there is an entry of this id."""
        return any(entry.id == identifier for entry in self._entries)

    def find(self, source: str) -> ArchiveEntry | None:
        """Return the first entry with exactly this source that was not rejected."""
        for entry in self._entries:
            if entry.source == source and entry.rejection is None:
                return entry
        return None

    def normalised(self) -> dict[str, str]:
        """Return the ids of the entries by normalised hash, the oldest of equals."""
        known: dict[str, str] = {}
        for entry in self._entries:
            try:
                known.setdefault(normalised_hash(entry.source), entry.id)
            except (SyntaxError, ValueError, RecursionError):
                continue  # rejected by the gate "parse": nothing can equal it
        return known

    def settled(self, phase: int, weights_id: str) -> dict[str, str]:
        """Return what need not be tried again in this phase, as ``normalised`` does: programs that
        were rejected, and those with a fresh score. One whose scores are all stale is worth
        another trial, since the weights have changed."""
        return {
            program: identifier
            for program, identifier in self.normalised().items()
            if self[identifier].rejection is not None
            or self[identifier].score_in(phase, weights_id) is not None
        }

    def fresh(self, phase: int, weights_id: str) -> list[tuple[str, Score]]:
        """Return the id and score of each entry scored in this phase under these weights."""
        scored = ((entry.id, entry.score_in(phase, weights_id)) for entry in self._entries)
        return [(identifier, score) for identifier, score in scored if score is not None]

    def next_id(self) -> str:
        """Return the id that the next entry must have."""
        return entry_id(len(self._entries))

    def add(self, entry: ArchiveEntry) -> None:
        """Append ``entry``, whose id is ``next_id()``."""
        if entry.id != self.next_id():
            raise ValueError(f"entry {entry.id} cannot follow {len(self._entries)} entries")
        self._folder.mkdir(parents=True, exist_ok=True)
        target = self._folder / entry.id
        draft = self._folder / f"{entry.id}.tmp"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        _write(draft / "harness.py", entry.source.encode())
        _write(draft / "metadata.json", metadata_bytes(entry))
        _sync_folder(draft)
        os.rename(draft, target)
        _sync_folder(self._folder)
        self._entries.append(entry)

    def record(
        self,
        identifier: str,
        score: Score,
        *,
        cycle: int,
        phase: int,
        iteration: int,
        kind: str = SELECTION,
    ) -> None:
        """Append a score to the entry ``identifier``."""
        entry = self[identifier]
        record = ScoreRecord(self.mark()["scores"], cycle, phase, iteration, score, kind)
        self._rewrite(evolve(entry, scores=(*entry.scores, record)))

    def mark(self) -> dict[str, int]:
        """Return how far the archive has come, for ``restore``."""
        numbers = [record.number for entry in self._entries for record in entry.scores]
        return {"entries": len(self._entries), "scores": max(numbers, default=-1) + 1}

    def _rewrite(self, entry: ArchiveEntry) -> None:
        path = self._folder / entry.id / "metadata.json"
        draft = path.with_suffix(".tmp")
        _write(draft, metadata_bytes(entry))
        os.replace(draft, path)
        _sync_folder(path.parent)
        self._entries[self._entries.index(self[entry.id])] = entry


def visible(entries: Sequence[ArchiveEntry]) -> list[ArchiveEntry]:
    """Return the entries as proposers may see them.

    Scores that confirm a choice are left out, and the others numbered anew: they tell how each
    example did of which no proposer may learn anything. Of why rollouts crashed the types stay
    alone: a harness may say in a message what an example holds that is not shown.
    """
    numbers = sorted(record.number for entry in entries for record in entry.selection_scores)
    place = {number: index for index, number in enumerate(numbers)}

    def kept(record: ScoreRecord) -> ScoreRecord:
        reasons = without_messages(record.score.reasons)
        return evolve(
            record, number=place[record.number], score=evolve(record.score, reasons=reasons)
        )

    return [evolve(entry, scores=tuple(map(kept, entry.selection_scores))) for entry in entries]


def _remove_drafts(folder: Path) -> None:
    for draft in sorted(folder.glob("h*.tmp")):
        shutil.rmtree(draft)


def _read_entries(folder: Path, found: Sequence[Path], scores: int | None) -> list[ArchiveEntry]:
    """Read the entries of ``found``, with the scores numbered below ``scores`` (None: all)."""
    for index, path in enumerate(found):
        if path.name != entry_id(index):
            raise RunFolderError(f"{folder}: harness {entry_id(index)} of the archive is missing")
    entries = [_sealed_entry(path) for path in found]
    if scores is not None:
        entries = [
            evolve(e, scores=tuple(record for record in e.scores if record.number < scores))
            for e in entries
        ]
    numbers = sorted(record.number for entry in entries for record in entry.scores)
    if numbers != list(range(len(numbers) if scores is None else scores)):
        raise RunFolderError(f"{folder}: scores of the archive are missing or doubled")
    return entries


def _sealed_entry(folder: Path) -> ArchiveEntry:
    """Read an entry that this search wrote, so that it must have its checksum."""
    entry = read_entry(folder)
    if b'"checksum"' not in (folder / "metadata.json").read_bytes():
        raise RunFolderError(f"{folder}: metadata.json was edited by hand: it has no checksum")
    return entry


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
