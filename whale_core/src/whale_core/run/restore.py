"""Where an interrupted run stands, read from its journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import cattrs
from attrs import field, frozen

from whale_core.errors import RunFolderError
from whale_core.keys import content_hash
from whale_core.records import Json
from whale_core.roles import Harness
from whale_core.run.journal import JOURNAL, Entry

T = TypeVar("T")


class Journalled(Protocol):
    """A run folder of which the committed blocks are known."""

    @property
    def path(self) -> Path:
        """The folder."""
        ...

    @property
    def entries(self) -> list[Entry]:
        """The committed blocks in order."""
        ...


@frozen
class PhaseEnd:
    """The journal line ``phase_done``: all that the next phase begins with."""

    phase: int
    kind: str
    cycle: int
    step: int
    result: Mapping[str, Json] | None
    harness: str
    harness_id: str
    checkpoint: str | None
    weights_id: str
    sampler: Mapping[str, int]
    search: Json
    selection: Mapping[str, Json]


@frozen
class Checkpoint:
    """The journal line ``checkpoint``: a point within a weight phase to go on from.

    ``optimizer`` is the state's content hash; ``retired`` names what may go from ``weights/``.
    """

    phase: int
    step: int
    name: str
    weights_id: str
    optimizer: str
    sampler: Mapping[str, int]
    retired: list[str]


@frozen
class Standing:
    """What a run goes on from: the finished phases, and the newest checkpoint.

    Blocks from ``replay_from`` on are met again. ``taken`` are the signals of the unfinished
    phase's steps before the checkpoint, which are not.
    """

    ends: list[PhaseEnd] = field(factory=list)
    checkpoint: Checkpoint | None = None
    taken: list[float] = field(factory=list)
    retired: list[str] = field(factory=list)
    replay_from: int = 1

    @classmethod
    def read(cls, folder: Journalled) -> Standing:
        """Read the journal of ``folder``. Raises ``RunFolderError`` for a line that was changed."""
        ends: list[PhaseEnd] = []
        checkpoint: Checkpoint | None = None
        signals: list[float] = []
        taken: list[float] = []
        retired: list[str] = []
        replay_from = 1
        for index, entry in enumerate(folder.entries):
            if entry["event"] == "phase_done":
                ends.append(_read(folder.path, index, entry, PhaseEnd))
                signals, taken, replay_from = [], [], index + 1
            elif entry["event"] == "weight_step":
                signals.append(_read(folder.path, index, entry, _Signal).reward)
            elif entry["event"] == "checkpoint":
                checkpoint = _read(folder.path, index, entry, Checkpoint)
                retired += checkpoint.retired
                taken, replay_from = list(signals), index + 1
        return cls(ends, checkpoint, taken, retired, replay_from)


@frozen
class _Signal:
    reward: float


def phase_ends(run: Path, entries: Sequence[Entry]) -> list[PhaseEnd]:
    """Return the ends of all finished phases of a run, the start (phase 0) first.

    Raises:
        RunFolderError: a line of the journal was changed.
    """
    return [
        _read(run, index, entry, PhaseEnd)
        for index, entry in enumerate(entries)
        if entry["event"] == "phase_done"
    ]


def accepted_path(run: Path, phase: int) -> Path:
    """Return where the harness that stood at the end of a phase is kept."""
    return run / "accepted" / f"phase-{phase:03d}.py"


def accepted_harness(run: Path, end: PhaseEnd) -> Harness:
    """Return the harness that stood at the end of a phase.

    Raises:
        RunFolderError: its file is missing or was changed.
    """
    path = accepted_path(run, end.phase)
    try:
        source = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error
    if content_hash(source) != end.harness_id:
        raise RunFolderError(f"{path} was changed: it is not the harness that was accepted")
    return Harness(end.harness_id, source, end.harness)


def _read(run: Path, index: int, entry: Entry, kind: type[T]) -> T:
    try:
        return cattrs.structure(entry, kind)
    except Exception as error:  # cattrs raises groups, and whatever a wrong value makes it raise
        problem = "; ".join(cattrs.transform_error(error)) if error.args else str(error)
        raise RunFolderError(
            f"{run / JOURNAL}: block {index + 1} ({entry['event']}) was changed: {problem[:200]}"
        ) from error
