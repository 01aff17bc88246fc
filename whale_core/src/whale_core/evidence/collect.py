"""A run folder as one record: what a comparison needs of it, and no more.

Read from what the run has committed, whether it has finished or not; the test split itself is not
opened here: its figures are those of the run's own final pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import yaml  # type: ignore[import-untyped]
from attrs import asdict, field, frozen

from whale_core.errors import RunFolderError
from whale_core.evidence.report.costs import paper_count
from whale_core.evidence.report.curves import SELECTION, curves_of
from whale_core.evidence.report.facts import ReportedRun
from whale_core.records import Json
from whale_core.run.folder import LEDGER
from whale_core.run.ledger import Ledger
from whale_core.run.passes import pass_table
from whale_core.run.reader import MANIFEST, StoredRun
from whale_core.run.status import read_status
from whale_core.stats import Interval, luck_of_the_best, mean_pass_at_k

FINISHED = "finished"
REPORTED = "theta_h"
START = "theta0_h0"
KINDS = {"weights": "W", "harness": "H"}


@frozen
class Point:
    """The end of a phase (0: the start): what the pair scored on the selection split, and what had
    been spent by then."""

    phase: int
    kind: str
    cycle: int
    length: int
    signals: tuple[float, ...]
    rollouts: int
    tokens: int
    usd: float
    seconds: float
    mean: float
    low: float
    high: float
    metrics: Mapping[str, float]
    harness: str
    harness_id: str
    weights_id: str


@frozen
class RunRecord:
    """One run. ``state`` is a ``Status``'s, or ``missing`` or ``failed`` for one that is not there
    or ended with an error (the ``reason``).

    ``pairs`` are the four corners on the test split as in ``result.json``; ``means`` hold of the
    reported pair and of the start each test example's mean over its draws, ``pass_at`` by k the
    reported pair's pass@k with its interval over examples. ``update_rollouts`` are counted as the
    paper does (``paper_count``). ``luck`` is ``luck_of_the_best`` of the pairs that were measured
    on selection.
    """

    run: str
    plugin_set: str
    seed: int
    settings_hash: str
    state: str
    reason: str = ""
    domain: str = ""
    machine: Mapping[str, Json] = field(factory=dict)
    seconds: float = 0.0
    spent: Mapping[str, float] = field(factory=dict)
    by: Mapping[str, Json] = field(factory=dict)
    update_rollouts: int | None = None
    points: tuple[Point, ...] = ()
    luck: float | None = None
    decided_at: int | None = None
    pairs: Mapping[str, Mapping[str, Json]] = field(factory=dict)
    pass_at: Mapping[str, Interval] = field(factory=dict)
    differences: tuple[Mapping[str, Json], ...] = ()
    chance: Mapping[str, float] = field(factory=dict)
    test_split: str = ""
    test_openings: int | None = None
    means: Mapping[str, Mapping[str, float]] = field(factory=dict, repr=False)

    @property
    def finished(self) -> bool:
        """Whether it has a result."""
        return self.state == FINISHED

    @property
    def final(self) -> Mapping[str, Json]:
        """The reported pair on the test split; only of a finished run."""
        return self.pairs[REPORTED]

    @property
    def phases(self) -> str:
        """The phases that came about: ``W8 H3 W8``; empty where there are none."""
        return " ".join(f"{KINDS[p.kind]}{p.length}" for p in self.points if p.kind in KINDS)

    def as_json(self) -> dict[str, Json]:
        """Return the record as plain JSON, without the examples' means."""
        whole: dict[str, Json] = {**asdict(self), "phases": self.phases}
        del whole["means"]
        return whole


def collect(folder: Path) -> RunRecord:
    """Return the record of the run in ``folder``.

    Raises:
        RunFolderError: it is no run folder, or it is damaged.
    """
    status = read_status(folder)
    stored = StoredRun.open(folder)
    manifest = _read(folder / MANIFEST, json.loads)
    config = _read(folder / "config.yaml", yaml.safe_load)
    result = status.result or {}
    paper = paper_count(ReportedRun.read(folder))
    try:
        return RunRecord(
            run=folder.name,
            plugin_set=str(config["plugin_set"]),
            seed=int(config["seed"]),
            settings_hash=str(stored.entries[0]["settings_hash"]),
            state=status.state,
            reason=status.reason,
            domain=str(manifest["domain"]["name"]),
            machine=_machine(manifest),
            seconds=round(status.seconds, 1),
            spent=status.spent,
            by=_ledger(stored, stored.lengths).totals()["by"],
            update_rollouts=None if paper is None else paper.rollouts,
            points=_points(stored),
            luck=_luck(stored),
            decided_at=result.get("decided_at_phase"),
            pairs=result.get("pairs", {}),
            pass_at=_pass_at(stored) if result else {},
            differences=tuple(result.get("differences", ())),
            chance=result.get("chance", {}),
            test_split=str(result.get("test_split_hash", "")),
            test_openings=result.get("test_openings"),
            means=_means(stored) if result else {},
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise RunFolderError(f"{folder} cannot be read: not as a run writes it ({said})") from error


def _machine(manifest: Mapping[str, Json]) -> dict[str, Json]:
    named = ("whale", "engine", "machine", "python", "packages", "jail", "verifier")
    facts = {name: manifest[name] for name in named if name in manifest}
    return {**facts, "domain_version": manifest["domain"]["version"]}


def _means(stored: StoredRun) -> dict[str, Mapping[str, float]]:
    return {
        line["pair"]: line["score"]["means"]
        for line in stored.entries
        if line["event"] == "evaluation" and line["pair"] in (REPORTED, START)
    }


def _pass_at(stored: StoredRun) -> dict[str, Interval]:
    """Return pass@k over the examples with k scored draws, for k = 1, 2, 4, … and all draws."""
    (score,) = (
        line["score"]
        for line in stored.entries
        if line["event"] == "evaluation" and line["pair"] == REPORTED
    )
    passes = {name: (int(c), int(n)) for name, (c, n) in score.get("passes", {}).items()}
    made = {}
    for k in pass_table(passes, score["draws"]):
        counts = np.array([each for each in passes.values() if each[1] >= int(k)])
        made[k] = mean_pass_at_k(counts[:, 0], counts[:, 1], int(k))
    return made


def _luck(stored: StoredRun) -> float | None:
    """Return what luck alone gives the best of the measured pairs; None where their examples'
    scores are not kept, or there is one pair."""
    tables = [
        line["selection"]["means"] for line in stored.entries if line["event"] == "phase_done"
    ]
    names = sorted(set.intersection(*map(set, tables))) if tables else []
    if len(tables) < 2 or not names:
        return None
    return luck_of_the_best(np.array([[table[name] for name in names] for table in tables]))


def _points(stored: StoredRun) -> tuple[Point, ...]:
    ends = [line for line in stored.entries if line["event"] == "phase_done"]
    measured = curves_of(stored.entries).series(SELECTION)  # the x-axis of all curves
    return tuple(_point(stored, line, at.rollouts) for line, at in zip(ends, measured, strict=True))


def _point(stored: StoredRun, line: Mapping[str, Json], rollouts: int) -> Point:
    totals = _ledger(stored, line["lengths"]).totals()
    score, result = line["selection"], line["result"] or {"length": 0, "signals": ()}
    return Point(
        phase=line["phase"],
        kind=line["kind"],
        cycle=line["cycle"],
        length=result["length"],
        signals=tuple(result["signals"]),
        rollouts=rollouts,
        tokens=int(totals["prompt_tokens"] + totals["sampled_tokens"]),
        usd=totals["usd"],
        seconds=round(line["at_seconds"], 1),
        mean=score["mean"],
        low=score["low"],
        high=score["high"],
        metrics=score["metrics"],
        harness=line["harness"],
        harness_id=line["harness_id"],
        weights_id=line["weights_id"],
    )


def _ledger(stored: StoredRun, lengths: Mapping[str, int]) -> Ledger:
    """Return the ledger up to the length that a journal line names."""
    size = lengths.get(LEDGER, 0)
    try:
        with (stored.path / LEDGER).open("rb") as file:
            return Ledger.of(json.loads(line) for line in file.read(size).splitlines())
    except FileNotFoundError as error:
        if size:
            raise RunFolderError(f"{stored.path / LEDGER} is missing") from error
        return Ledger()


def _read(path: Path, parse: Json) -> Mapping[str, Json]:
    try:
        read = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error
    if not isinstance(read, dict):
        raise RunFolderError(f"{path} cannot be read: it holds no settings")
    return read
