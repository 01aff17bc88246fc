"""The archive's format on disk: what a search leaves in ``harnesses/``, and how it is read.

One folder per harness, ``h0000`` on: ``harness.py`` and ``metadata.json``. ``docs/runs.md``
describes the fields. A search of any package may write it; this reader and the search of
``whale_metaharness`` share these records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import cattrs
from attrs import field, frozen

from whale_core.errors import RunFolderError
from whale_core.keys import content_hash, json_hash
from whale_core.records import Json
from whale_core.roles import Harness, Rejection, Score

SELECTION = "score"  # kinds of scores: what candidates are compared by,
CONFIRMATION = "confirm"  # and fresh draws for those that were best by it


@frozen
class ScoreRecord:
    """A score and when it was measured. ``number`` counts all scores of the archive from 0.

    Scores of different ``kind`` are never compared: the best of many by a selection score does
    worse when it is measured again.
    """

    number: int
    cycle: int
    phase: int
    iteration: int
    score: Score
    kind: str = SELECTION


@frozen
class ArchiveEntry:
    """One harness of the archive, also of rejected candidates; ``parent`` is another one's id."""

    id: str
    source: str
    cycle: int
    phase: int
    iteration: int
    parent: str | None = None
    axis: str = ""
    hypothesis: str = ""
    changes: str = ""
    rejection: Rejection | None = None
    position_leak: Mapping[str, float] = field(factory=dict)
    scores: tuple[ScoreRecord, ...] = ()

    @property
    def harness(self) -> Harness:
        """The harness to run; its id is the hash of its content, its name this one's id."""
        return Harness(id=content_hash(self.source), source=self.source, name=self.id)

    def score_in(self, phase: int, weights_id: str, kind: str = SELECTION) -> Score | None:
        """Return the newest score of a kind measured in ``phase`` under ``weights_id``, if any."""
        for record in reversed(self.scores):
            measured = (record.phase, record.score.weights_id, record.kind)
            if measured == (phase, weights_id, kind):
                return record.score
        return None

    @property
    def selection_scores(self) -> tuple[ScoreRecord, ...]:
        """The scores that candidates are compared by, oldest first."""
        return tuple(record for record in self.scores if record.kind == SELECTION)


def entry_id(index: int) -> str:
    """Return the id of the ``index``-th harness (from 0)."""
    return f"h{index:04d}"


def entry_folders(archive: Path) -> list[Path]:
    """Return the folders of the archived harnesses, in order."""
    found = [path for path in archive.glob("h*") if re.fullmatch(r"h\d{4,}", path.name)]
    return sorted(found, key=lambda path: int(path.name[1:]))


def metadata_bytes(entry: ArchiveEntry) -> bytes:
    """Return the content of an entry's ``metadata.json``: all but the source, with checksums."""
    data: dict[str, Json] = cattrs.unstructure(entry)
    del data["source"]
    data["harness_id"] = entry.harness.id
    data["checksum"] = json_hash(data)
    return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()


def read_entry(folder: Path) -> ArchiveEntry:
    """Read one archived harness.

    ``harness_id`` and ``checksum`` must fit where they are given; whoever writes them can rely on
    that edits by hand are found.

    Raises:
        RunFolderError: the entry is unreadable, damaged or was edited by hand.
    """
    try:
        source = (folder / "harness.py").read_bytes().decode()
        data = json.loads((folder / "metadata.json").read_bytes())
        checksum = data.pop("checksum", None)
        whole = checksum is None or checksum == json_hash(data)
        harness_id = data.pop("harness_id", None)
        entry = cattrs.structure({**data, "source": source}, ArchiveEntry)
    except Exception as error:  # whatever is wrong with the files, the remedy is the same
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise RunFolderError(f"{folder}: unreadable archive entry ({words})") from error
    if not whole:
        raise RunFolderError(
            f"{folder}: metadata.json is damaged or was edited by hand: its checksum does not fit"
        )
    if entry.id != folder.name or harness_id not in (None, entry.harness.id):
        raise RunFolderError(
            f"{folder}: harness.py is not the file its metadata.json describes; restore it, or "
            f"start a new run from the edited harness"
        )
    return entry


def read_archive(archive: Path) -> list[ArchiveEntry]:
    """Read all harnesses of an archive, in order; an archive that is not there has none.

    A search that works on it meanwhile does no harm: folders and files appear whole, and one that
    goes away (a resumed run takes back what it had not committed) is left out.

    Raises:
        RunFolderError: as ``read_entry``.
    """
    entries = []
    for folder in entry_folders(archive):
        try:
            entries.append(read_entry(folder))
        except RunFolderError:
            if folder.is_dir():
                raise
    return entries


def best_of(entries: Sequence[ArchiveEntry]) -> list[Harness]:
    """Return the harnesses that were scored in the last phase with scores, the best first.

    All those scores are of the same weights, so that they compare; equal ones go to fewer model
    calls, then to the older harness.
    """
    scored = [entry for entry in entries if entry.rejection is None and entry.selection_scores]
    last = max((entry.selection_scores[-1].phase for entry in scored), default=0)
    fresh = [entry for entry in scored if entry.selection_scores[-1].phase == last]
    ranked = sorted(fresh, key=lambda entry: _rank(entry.selection_scores[-1].score))
    return [entry.harness for entry in ranked]


def _rank(score: Score) -> tuple[float, float]:
    return -score.mean, score.mean_calls
