"""A finished run as plain objects, read from its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import cattrs
from attrs import field, frozen

from whale_core.errors import InputError, RunFolderError
from whale_core.frames import frame
from whale_core.keys import content_hash
from whale_core.plugins.suggest import did_you_mean
from whale_core.records import Json
from whale_core.roles import Harness, WeightStep
from whale_core.run.journal import JOURNAL, Entry, read_journal
from whale_core.run.restore import PhaseEnd, accepted_harness, phase_ends

T = TypeVar("T")


@frozen
class SearchedCandidate:
    """One harness that a search tried: what became of it in which iteration of which phase.

    ``mean`` is its score on the phase's D_harness examples, None for one that was ``rejection``
    (gate and reason); ``accepted`` says that it stood after the iteration.
    """

    phase: int
    iteration: int
    harness: str  # its name in the archive
    id: str
    parent: str | None
    axis: str
    changes: str
    mean: float | None
    accepted: bool
    rejection: Mapping[str, str] | None = None
    metrics: Mapping[str, float] = field(factory=dict)


@frozen
class RunResult:
    """What came of a run: ``data`` is its ``result.json``, the rest is read from its folder.

    ``pairs`` are the four corners of the 2 × 2 on the sealed test, each with mean, interval, ids;
    ``differences`` are paired by example; ``ledger`` is what was spent.
    """

    folder: Path
    data: Mapping[str, Json] = field(repr=False)
    phases: tuple[PhaseEnd, ...] = field(repr=False)
    """The pair after every phase, and what it scored on the selection split; the start first."""
    steps: tuple[WeightStep, ...] = field(repr=False)
    candidates: tuple[SearchedCandidate, ...] = field(repr=False)
    harness: Harness = field(repr=False)
    """The harness of the reported pair."""
    checkpoint: Path | None
    """The folder of its weights (Hugging Face format); None: those that the run began with."""

    @classmethod
    def read(cls, folder: Path, data: Mapping[str, Json]) -> RunResult:
        """Read the folder of the finished run whose result is ``data``.

        Raises:
            RunFolderError: the folder was changed.
        """
        lines, _, _ = read_journal(folder / JOURNAL)
        entries = [line for line in lines if "event" in line]
        phases = tuple(phase_ends(folder, entries))
        try:
            chosen = phases[data["decided_at_phase"]]
            steps = tuple(
                cattrs.structure(entry, WeightStep) for entry in _all(entries, "weight_step")
            )
            candidates = tuple(
                candidate
                for entry in _all(entries, "search_iteration")
                for candidate in _candidates(entry)
            )
        except Exception as error:  # cattrs raises groups, and whatever a wrong value makes it
            raise RunFolderError(f"{folder}: journal or result were changed: {error}") from error
        checkpoint = folder / "weights" / chosen.checkpoint if chosen.checkpoint else None
        harness = accepted_harness(folder, chosen)
        return cls(folder, data, phases, steps, candidates, harness, checkpoint)

    @property
    def pairs(self) -> Mapping[str, Mapping[str, Json]]:
        """``theta0_h0``, ``theta0_h``, ``theta_h0`` and ``theta_h`` on the test split."""
        pairs: Mapping[str, Mapping[str, Json]] = self.data["pairs"]
        return pairs

    @property
    def differences(self) -> Sequence[Mapping[str, Json]]:
        """Differences between pairs (``a`` - ``b``), paired by example, with intervals."""
        differences: Sequence[Mapping[str, Json]] = self.data["differences"]
        return differences

    @property
    def ledger(self) -> Mapping[str, Json]:
        """What the run spent, in all, by role and purpose (``by``) and by phase (``phases``)."""
        ledger: Mapping[str, Json] = self.data["ledger"]
        return ledger

    @property
    def sentence(self) -> str:
        """What happened, in plain words."""
        return str(self.data["sentence"])

    @property
    def archive(self) -> dict[str, Harness]:
        """Every harness that the run's searches kept, rejected ones too, by its name there.

        Raises:
            RunFolderError: a file of the archive cannot be read.
        """
        found: dict[str, Harness] = {}
        for path in sorted((self.folder / "harnesses").glob("h*/harness.py")):
            try:
                source = path.read_bytes().decode()
            except (OSError, ValueError) as error:
                raise RunFolderError(f"{path} cannot be read: {error}") from error
            found[path.parent.name] = Harness(content_hash(source), source, path.parent.name)
        return found

    def to_frame(self, table: str = "pairs") -> Any:
        """Return a table as a ``pandas.DataFrame``.

        Args:
            table: ``pairs``, ``differences``, ``phases``, ``steps``, ``candidates`` or ``ledger``.

        Raises:
            InputError: there is no such table, or pandas is not installed.
        """
        if table not in TABLES:
            raise InputError(f"no table is called {table!r}{did_you_mean(str(table), TABLES)}")
        rows, columns = TABLES[table]
        return frame(rows(self), columns)


def _all(entries: Sequence[Entry], event: str) -> list[Entry]:
    return [entry for entry in entries if entry["event"] == event]


def _candidates(entry: Entry) -> list[SearchedCandidate]:
    where = {"phase": entry["phase"], "iteration": entry["iteration"]}
    return [
        cattrs.structure(
            {**where, **each, "accepted": each["id"] == entry["accepted_id"]}, SearchedCandidate
        )
        for each in entry["candidates"]
    ]


Rows = list[dict[str, Json]]


def _pair_rows(result: RunResult) -> Rows:
    return [{"pair": name, **_flat(pair, PAIR_PREFIXES)} for name, pair in result.pairs.items()]


def _phase_rows(result: RunResult) -> Rows:
    rows = []
    for end in result.phases:
        signals = end.result["signals"] if end.result else ()
        rows.append(
            {
                "phase": end.phase,
                "kind": end.kind,
                "cycle": end.cycle,
                "length": len(signals),
                "last_signal": signals[-1] if signals else None,
                "selection": end.selection["mean"],
                "low": end.selection["low"],
                "high": end.selection["high"],
                "harness": end.harness,
                "harness_id": end.harness_id,
                "weights_id": end.weights_id,
                "checkpoint": end.checkpoint,
            }
        )
    return rows


def _ledger_rows(result: RunResult) -> Rows:
    rows = []
    for name, spent in result.ledger["by"].items():
        role, _, purpose = name.partition("/")
        rows.append({"role": role, "purpose": purpose, **spent})
    return rows


def _record_rows(records: Sequence[Any]) -> Rows:
    return [
        _flat(cattrs.unstructure(record), {"metrics": "metric", "rejection": "rejected"})
        for record in records
    ]


def _flat(row: Mapping[str, Json], prefixes: Mapping[str, str]) -> dict[str, Json]:
    """Return ``row`` with the mappings in it as columns ``prefix.key``."""
    flat: dict[str, Json] = {}
    for key, value in row.items():
        if key not in prefixes:
            flat[key] = value
            continue
        flat.update({f"{prefixes[key]}.{name}": each for name, each in (value or {}).items()})
    return flat


PAIR_PREFIXES = {"metrics": "metric", "parts": "part", "sources": "source"}
PAIR_COLUMNS = ("pair", "mean", "low", "high", "examples", "draws", "harness")
DIFFERENCE_COLUMNS = ("a", "b", "mean", "low", "high", "examples")
CANDIDATE_COLUMNS = ("phase", "iteration", "harness", "parent", "axis", "mean", "accepted")

TABLES: Mapping[str, tuple[Callable[[RunResult], Rows], tuple[str, ...]]] = {
    "pairs": (_pair_rows, PAIR_COLUMNS),
    "differences": (lambda result: [dict(each) for each in result.differences], DIFFERENCE_COLUMNS),
    "phases": (_phase_rows, ("phase", "kind", "cycle", "length", "selection")),
    "steps": (lambda result: _record_rows(result.steps), ("step", "reward", "accepted")),
    "candidates": (lambda result: _record_rows(result.candidates), CANDIDATE_COLUMNS),
    "ledger": (_ledger_rows, ("role", "purpose", "rollouts", "sampled_tokens", "seconds")),
}
