"""A run folder as one record: what a comparison needs of it, and no more.

Read from what the run has committed, whether it has finished or not; the test split itself is not
opened here: its figures are those of the run's own final pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from attrs import asdict, field, frozen

from whale_core.errors import RunFolderError
from whale_core.records import Json
from whale_core.run.folder import LEDGER
from whale_core.run.ledger import MEASURING, Ledger
from whale_core.run.reader import MANIFEST, StoredRun
from whale_core.run.status import read_status

FINISHED = "finished"
REPORTED = "theta_h"
START = "theta0_h0"
KINDS = {"weights": "W", "harness": "H"}


@frozen
class Point:
    """The end of a phase (0: the start): what the pair scored on the selection split, and what had
    been spent by then. ``update_rollouts`` are those of training and search alone."""

    phase: int
    kind: str
    cycle: int
    length: int
    signals: tuple[float, ...]
    rollouts: int
    update_rollouts: int
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
    reported pair and of the start each test example's mean over its draws.
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
    points: tuple[Point, ...] = ()
    decided_at: int | None = None
    pairs: Mapping[str, Mapping[str, Json]] = field(factory=dict)
    differences: Sequence[Mapping[str, Json]] = ()
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
            points=_points(stored),
            decided_at=result.get("decided_at_phase"),
            pairs=result.get("pairs", {}),
            differences=result.get("differences", ()),
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


def _points(stored: StoredRun) -> tuple[Point, ...]:
    return tuple(_point(stored, line) for line in stored.entries if line["event"] == "phase_done")


def _point(stored: StoredRun, line: Mapping[str, Json]) -> Point:
    ledger = _ledger(stored, line["lengths"])
    totals = ledger.totals()
    measured = sum(
        spent.get("rollouts", 0)
        for name, spent in totals["by"].items()
        if name.partition("/")[2] in MEASURING
    )
    score, result = line["selection"], line["result"] or {"length": 0, "signals": ()}
    return Point(
        phase=line["phase"],
        kind=line["kind"],
        cycle=line["cycle"],
        length=result["length"],
        signals=tuple(result["signals"]),
        rollouts=ledger.rollouts,
        update_rollouts=int(ledger.rollouts - measured),
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
