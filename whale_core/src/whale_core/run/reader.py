"""A run folder as a reader sees it: without the lock, also while the run works on it.

Only what the journal has committed is read. The test split's rollouts stay sealed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import field, frozen

from whale_core.errors import InputError, RunFolderError
from whale_core.plugins.suggest import nearest
from whale_core.records import Json
from whale_core.run.archive import ArchiveEntry, read_archive
from whale_core.run.journal import JOURNAL, Entry, read_journal
from whale_core.run.restore import PhaseEnd, Standing

MANIFEST = "manifest.json"
RUNS = Path("runs")
H0 = "h0"
SEALED = "test"


@frozen
class MadeWith:
    """What a run's manifest says of its rollouts."""

    jail_kind: str
    domain_version: str
    verifier_version: str


@frozen
class StoredRun:
    """A run's journal as it was when it was opened, and what it says of the other files."""

    path: Path
    entries: list[Entry] = field(repr=False)
    lengths: Mapping[str, int] = field(repr=False)

    @classmethod
    def open(cls, path: Path) -> StoredRun:
        """Read the journal of the run folder ``path``.

        Raises:
            RunFolderError: it is none, was changed, or another version wrote it.
        """
        lines, _, _ = read_journal(path / JOURNAL)
        events = [line for line in lines if "event" in line]
        return cls(path, events, lines[-1]["lengths"])

    def made_with(self) -> MadeWith:
        """Return what the run's rollouts were made with.

        Raises:
            RunFolderError: its manifest cannot be read.
        """
        path = self.path / MANIFEST
        try:
            stored = json.loads(path.read_bytes())
            made = MadeWith(stored["jail"], stored["domain"]["version"], stored["verifier"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(f"{path} cannot be read: {error}") from error
        return made

    def ends(self) -> list[PhaseEnd]:
        """Return the ends of the finished phases, the start (phase 0) included."""
        return Standing.read(self).ends

    def weights_labels(self) -> dict[str, str]:
        """Return a short name for each weights id of the run: θ0, or the step that led to it."""
        labels: dict[str, str] = {}
        for line in self.entries:
            if line["event"] in ("phase_done", "weight_step", "checkpoint"):
                name = f"step {line['step']}" if line["step"] else "θ0"
                labels.setdefault(str(line["weights_id"]), name)
        return labels

    def weights_id(self) -> str:
        """Return the id of the weights that the run has now; "" before its first measurement."""
        named = [line["weights_id"] for line in self.entries if "weights_id" in line]
        return str(named[-1]) if named else ""

    def kept_weights(self) -> dict[str | None, str]:
        """Return the weights ids of the checkpoints that are in the folder now, by name; the first
        model's is under None. None at all before the run's first measurement."""
        ends = self.ends()
        kept: dict[str | None, str] = {None: ends[0].weights_id} if ends else {}
        for line in self.entries:
            name = str(line.get("name"))
            if line["event"] == "checkpoint" and (self.path / "weights" / name).is_dir():
                kept[name] = str(line["weights_id"])
        return kept

    def trained_under(self) -> dict[int, tuple[str, ...]]:
        """Return by weight step the content ids of the harnesses it was rolled out under, the
        phase's own first; the others are those of a mixture.

        Raises:
            RunFolderError: a harness of a mixture is not in the archive any more.
        """
        found: dict[int, tuple[str, ...]] = {}
        mixed: dict[int, list[str]] = {}
        own, name = "", ""
        names = {entry.id: entry.harness.id for entry in self.harnesses()}
        for line in self.entries:
            if line["event"] == "phase_done":
                own, name = str(line["harness_id"]), str(line["harness"])
            elif line["event"] == "harness_mixture":
                others = [each for each in line["harnesses"] if each != name]
                lost = [each for each in others if each not in names]
                if lost:
                    raise RunFolderError(f"{self.path}: harnesses/{lost[0]} is missing")
                mixed[int(line["step"])] = [names[each] for each in others]
            elif line["event"] == "weight_step":
                step = int(line["step"])
                found[step] = tuple(dict.fromkeys([own, *mixed.get(step, [])]))
        return found

    def accepted_in(self) -> dict[str, list[int]]:
        """Return by harness content id the harness phases at whose end it stood."""
        phases: dict[str, list[int]] = {}
        for end in self.ends():
            if end.kind == "harness":
                phases.setdefault(end.harness_id, []).append(end.phase)
        return phases

    def reported(self) -> str | None:
        """Return the content id of the harness that the result is about; None while undecided."""
        for line in self.entries:
            if line["event"] == "decision":
                return self.ends()[line["chosen"]].harness_id
        return None

    def harnesses(self) -> list[ArchiveEntry]:
        """Return the archive's harnesses in order, and before them the one that the run began with
        (``h0``), while the archive does not hold it.

        Raises:
            RunFolderError: the archive, or ``h0.py``, cannot be read.
        """
        archived = read_archive(self.path / "harnesses")
        path = self.path / "h0.py"
        try:
            source = path.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{path} cannot be read: {error}") from error
        if any(entry.source == source and entry.rejection is None for entry in archived):
            return archived
        return [ArchiveEntry(H0, source, cycle=0, phase=0, iteration=0), *archived]

    def harness(self, name: str) -> ArchiveEntry:
        """Return a harness by its name, by the start of its content id, or by a short form of its
        name (``h3`` for ``h0003``; ``h0`` for the harness that the run began with).

        Raises:
            InputError: there is none, or several.
        """
        entries = self.harnesses()
        wanted = _full_name(name)
        found = [entry for entry in entries if entry.id in (name, wanted)][:1]
        if not found and re.fullmatch("[0-9a-f]{4,16}", name):
            alike = [entry for entry in entries if entry.harness.id.startswith(name)]
            found = [entry for entry in alike if entry.rejection is None] or alike
        if not found and name == H0:
            start = (self.path / "h0.py").read_bytes().decode()
            found = [entry for entry in entries if entry.source == start][:1]
        if not found:
            raise InputError(
                f"{self.path} has no harness '{name}'; it has {entries[0].id} to {entries[-1].id}"
            )
        if len({entry.harness.id for entry in found}) > 1:
            raise InputError(f"'{name}' means {' and '.join(entry.id for entry in found)}")
        return found[0]

    def rollouts(self, harness_id: str) -> Iterator[dict[str, Json]]:
        """Yield the stored rollouts of a harness (by content id), newest phase first, as the JSON
        that ``run.stored`` reads; each has its ``phase`` added. Those on the test split are not
        shown.

        Raises:
            RunFolderError: a file is damaged.
        """
        return self.stored_rollouts(harness=harness_id)

    def stored_rollouts(
        self, harness: str | None = None, purpose: str | None = None
    ) -> Iterator[dict[str, Json]]:
        """Do what ``rollouts`` does for all harnesses, or one, and all purposes, or one."""
        for phase in sorted(self._phases(), reverse=True):
            yield from self.phase_rollouts(phase, harness, purpose)

    def phase_rollouts(
        self,
        phase: int,
        harness: str | None = None,
        purpose: str | None = None,
        within: int | None = None,
    ) -> Iterator[dict[str, Json]]:
        """Do for a phase what ``stored_rollouts`` does for all; of those alone that begin
        ``within`` so many bytes of the file, where it is given.

        Raises:
            RunFolderError: the file is damaged.
        """
        name = self._phases().get(phase)
        marks = [f'"harness":"{harness}"'.encode()] if harness is not None else []
        marks += [f'"purpose":"{purpose}"'.encode()] if purpose is not None else []
        read = 0
        for line in self.committed(name) if name else ():
            if within is not None and read >= within:
                return
            read += len(line)
            if not all(mark in line for mark in marks):
                continue
            try:
                stored = json.loads(line)
                wanted = harness in (None, stored["harness"])
                made_for = stored["key"]["purpose"]
            except (ValueError, KeyError, TypeError) as error:
                raise RunFolderError(f"{self.path / str(name)} is damaged: {error}") from error
            if wanted and made_for != SEALED and purpose in (None, made_for):
                yield {**stored, "phase": phase}

    def committed(self, name: str) -> Iterator[bytes]:
        """Yield the committed lines of one of the run's files.

        Raises:
            RunFolderError: it is shorter than the journal says, or cannot be read.
        """
        yield from _lines(self.path / name, self.lengths.get(name, 0))

    def _phases(self) -> dict[int, str]:
        """Return the files of rollouts by phase."""
        found = {name: re.fullmatch(r"rollouts/phase-(\d+)\.jsonl", name) for name in self.lengths}
        return {int(match[1]): name for name, match in found.items() if match}


def find_run(name: str) -> Path:
    """Return the run folder called ``name``: a path, or the name of a folder in ``runs/``.

    Raises:
        RunFolderError: there is none; the message names the nearest.
    """
    candidates = (Path(name), RUNS / name)
    for path in candidates:
        if (path / JOURNAL).is_file():
            return path
    if candidates[0].is_dir():
        raise RunFolderError(f"{name} is not a run folder: it has no {JOURNAL}")
    found = {
        each.parent.name: str(each.parent)
        for above in (RUNS, candidates[0].parent)
        for each in above.glob(f"*/{JOURNAL}")
    }
    near = nearest(candidates[0].name, found)
    hint = f", did you mean '{found[near]}'?" if near else ""
    raise RunFolderError(f"no run folder at {name}{hint}")


def _full_name(name: str) -> str:
    """Return ``h0003`` for ``h3``; other names as they are."""
    short = re.fullmatch(r"h(\d+)", name)
    return f"h{int(short[1]):04d}" if short and name != H0 else name


def _lines(path: Path, length: int) -> Iterator[bytes]:
    """Yield the committed lines of a file: those within its first ``length`` bytes."""
    if not length:
        return
    try:
        with path.open("rb") as file:
            while file.tell() < length:
                line = file.readline()
                if not line.endswith(b"\n"):
                    raise RunFolderError(f"{path} is shorter than the journal says")
                yield line
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}") from error
