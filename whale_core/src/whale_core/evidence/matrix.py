"""Measuring the grid of ``grid``: which rows and columns runs have, and rollouts for each cell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from attrs import evolve, frozen

from whale_core.config import Resolved, read_config
from whale_core.errors import InputError
from whale_core.evidence.cell_ledger import CellLedger
from whale_core.evidence.cells import Cells, user_cells
from whale_core.evidence.grid import Cell, Column, Grid, Row
from whale_core.evidence.identity import Identity, TaskFacts
from whale_core.evidence.probe_size import held_examples
from whale_core.evidence.scratch import scratch_rollouts
from whale_core.evidence.start import check_same_task
from whale_core.jail import probe
from whale_core.keys import content_hash
from whale_core.plugins.manager import Plugins
from whale_core.records import Example, Json
from whale_core.roles import Harness
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import blocks
from whale_core.run.evaluation import Pair, load_pair
from whale_core.run.ledger import spent_charge
from whale_core.run.parts import RolloutParts, build_rollout_parts, sampling_of
from whale_core.run.reader import StoredRun
from whale_core.run.restore import accepted_harness
from whale_core.run.rollouts import Rollouts
from whale_core.run.sealed import split_hash
from whale_core.run.services import close_each, closed_on_error, probe_all
from whale_core.run.stopping import stopping_at_once

PURPOSE = "matrix"
ROLES = ("domain", "verifier", "engine")


@frozen
class Asked:
    """How large a matrix: ``examples`` (None: as many as the first run's ``selection.examples``)
    × ``draws``, ``held_out`` harnesses besides those that runs accepted, and the draws' seed.
    ``caps`` are settings ``cap.…=…`` in place of the runs' own."""

    examples: int | None = None
    draws: int = 1
    held_out: int = 4
    seed: int = 0
    caps: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise ``InputError`` for a number that is too small."""
        least = {"examples": 1, "draws": 1, "held_out": 0, "seed": 0}
        for name, value in (("examples", self.examples), ("draws", self.draws)):
            if value is not None and value < least[name]:
                raise InputError(f"--{name} {value}: give at least {least[name]}")
        for name, value in (("held-out", self.held_out), ("seed", self.seed)):
            if value < 0:
                raise InputError(f"--{name} {value}: give at least 0")


@frozen
class Matrix:
    """A measured grid, what it took now, what its cells ever cost (earlier commands included), and
    how many rollouts an earlier command had made."""

    grid: Grid
    ledger: Mapping[str, Json]
    ledger_of_cells: Mapping[str, Json]
    kept: int
    seconds: float
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Json]:
        """Return everything as plain JSON."""
        return {
            **self.grid.as_json(),
            "split": "selection",
            "ledger": dict(self.ledger),
            "ledger_of_cells": dict(self.ledger_of_cells),
            "rollouts_from_cache": self.kept,
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
        }


@frozen
class _Run:
    """A run with what it lends: its settings, its weights and its harnesses."""

    stored: StoredRun
    label: str
    resolved: Resolved
    rows: tuple[Row, ...]
    in_force: Mapping[str, Harness]  # by content id, the first one first
    found: Mapping[str, frozenset[str]]  # by content id: the weights it was accepted under
    tried: tuple[Harness, ...]  # scored, never in force and never trained under


def measure_matrix(
    runs: Sequence[StoredRun], plugins: Plugins, asked: Asked, cells: Cells | None = None
) -> Matrix:
    """Measure every kept θ of ``runs`` under every accepted and held-out harness, on ``selection``.

    Raises:
        InputError: no run is given, their tasks or decodings differ, or a number is too small.
        RunFolderError: a run has no measured pair yet, or its files were changed; or the cache
            cannot be written.
        CapReached: a cap of the run whose weights are due is used up by what the cells cost.
        TooMuchNotScored: a cell's rollouts met too many infrastructure faults.
    """
    asked.check()
    if not runs:
        raise InputError("give at least one run folder")
    read = [_read(run, plugins, asked.caps) for run in runs]
    work = _Work(read, plugins, asked, cells or user_cells())
    return work.measured()


class _Work:
    """One command's work: the parts of one run at a time."""

    def __init__(self, runs: Sequence[_Run], plugins: Plugins, asked: Asked, cells: Cells) -> None:
        self._runs, self._plugins, self._asked, self._cells = runs, plugins, asked, cells
        self._ledger = CellLedger(cells.folder)
        self._kept = 0
        self._notes: list[str] = []
        self._task: tuple[TaskFacts, str] | None = None  # the first run's, and its selection split
        self._columns: list[tuple[Column, Harness]] = []
        self._found: dict[tuple[str, str], Cell] = {}
        self._rows: dict[str, Row] = {}
        kinds = {run.stored.made_with().jail_kind for run in runs}
        self._jail = probe("bubblewrap" if "bubblewrap" in kinds else "process")

    def measured(self) -> Matrix:
        """Measure run by run."""
        started = time.monotonic()
        for run in self._runs:
            rows = [row for row in run.rows if row.weights_id not in self._rows]
            self._rows |= {row.weights_id: row for row in rows}
            self._measure_run(run, rows)
        columns = tuple(column for column, _ in self._columns)
        grid = Grid(tuple(self._rows.values()), columns, self._found, self._asked.draws)
        if not grid.examples:
            raise InputError("no example was scored in every cell: nothing compares")
        seconds = time.monotonic() - started
        now, ever = self._ledger.now.totals(), self._ledger.totals()
        return Matrix(grid, now, ever, self._kept, seconds, tuple(self._notes))

    def _measure_run(self, run: _Run, rows: Sequence[Row]) -> None:
        start = next(iter(run.in_force.values()))
        parts = build_rollout_parts(run.resolved, self._plugins, start.source)
        parts = evolve(parts, jail_kind=self._jail)
        with closed_on_error(*parts.closing):
            check_same_task(run.stored.path, parts.domain, parts.verifier)
            self._columns = self._columns or columns_of(self._runs, parts, self._asked.held_out)
            wanted = self._asked.examples or run.resolved.core.selection.examples
            if self._asked.examples is None:  # the first run's, in all
                self._asked = evolve(self._asked, examples=wanted)
            used = run.resolved.core.selection.examples
            examples, note = held_examples(parts.domain, wanted, used)
            if note and note not in self._notes:
                self._notes.append(note)
                self._plugins.hooks.on_notice(note)

        async def work() -> None:
            try:
                with stopping_at_once(), self._rollouts(run, parts) as rollouts:
                    await self._cells_of(run, rows, parts, examples, rollouts)
            finally:
                await close_each(*parts.closing)

        asyncio.run(work())

    def _check_task(self, run: _Run, parts: RolloutParts) -> TaskFacts:
        """Return the facts of a run's task; refuse a run whose numbers would not compare."""
        facts = TaskFacts.of(run.resolved, parts)
        split = split_hash(parts.domain.split("selection"))
        first, first_split = self._task or (facts, split)
        self._task = first, first_split
        found = facts.difference(first)
        if found is None and split != first_split:
            found = "selection split", split, first_split
        if found is not None:
            name, ours, theirs = found
            raise InputError(
                f"{run.stored.path}: its {name} is {ours}, that of the first run is {theirs}: "
                "scores would not compare; give runs of one task"
            )
        return facts

    def _rollouts(self, run: _Run, parts: RolloutParts) -> AbstractContextManager[Rollouts]:
        return scratch_rollouts(
            PURPOSE, run.resolved, parts, self._plugins.hooks, self._ledger, self._asked.seed
        )

    async def _cells_of(
        self,
        run: _Run,
        rows: Sequence[Row],
        parts: RolloutParts,
        examples: Sequence[Example],
        rollouts: Rollouts,
    ) -> None:
        # First, although all may be there already: what answers is part of what is asked for.
        spent = await probe_all(
            parts.unsealed, parts.verifier, parts.engine, sampling_of(run.resolved.core.rollout)
        )
        self._ledger.cell = ""
        for role, cost in spent.items():
            rollouts.charge(spent_charge(role, cost, "probe"))
        facts = self._check_task(run, parts)
        missing: dict[str, list[tuple[Identity, list[Job]]]] = {}
        for row in rows:
            missing[row.weights_id] = []
            for column, harness in self._columns:
                pair = (row.weights_id, column.harness_id)
                identity = Identity(*pair, facts, self._asked.seed, PURPOSE)
                jobs = self._missing(identity, harness, examples, rollouts)
                self._kept += len(examples) * self._asked.draws - len(jobs)
                missing[row.weights_id].append((identity, jobs))
        self._ledger.take_up({each.hash for cells in missing.values() for each, _ in cells})
        for row in rows:
            cells = missing[row.weights_id]
            if any(jobs for _, jobs in cells):
                at = Pair(self._columns[0][1], row.checkpoint, row.weights_id)
                await load_pair(parts.engine, run.stored.path, at)
            for identity, jobs in cells:
                self._ledger.cell = identity.hash
                for block in blocks(jobs):  # each is kept when it is complete
                    made = await rollouts.make(block)
                    self._cells.keep(
                        identity, zip((job.example for job in block), made, strict=True)
                    )
                found = identity.weights_id, identity.harness_id
                self._found[found] = self._cell(identity, examples)

    def _missing(
        self,
        identity: Identity,
        harness: Harness,
        examples: Sequence[Example],
        rollouts: Rollouts,
    ) -> list[Job]:
        return [
            job
            for example in examples
            for kept in [self._cells.rewards(identity, example)]
            for job in rollouts.jobs(harness, [example], self._asked.draws, PURPOSE, (0, 0))
            if job.key.draw not in kept
        ]

    def _cell(self, identity: Identity, examples: Sequence[Example]) -> Cell:
        means = {}
        for example in examples:
            kept = self._cells.rewards(identity, example)
            rewards = [kept[draw] for draw in range(self._asked.draws) if draw in kept]
            if rewards:
                means[example.id] = sum(rewards) / len(rewards)
        return Cell(means)


def _read(run: StoredRun, plugins: Plugins, caps: Sequence[str]) -> _Run:
    ends = run.ends()
    if not ends:
        raise InputError(f"{run.path} has no measured pair yet: wait for its first evaluation")
    resolved = read_config(plugins, run.path / "config.yaml", caps)
    resolved = evolve(resolved, chosen={role: resolved.chosen[role] for role in ROLES})
    in_force: dict[str, Harness] = {}
    found: dict[str, set[str]] = {}
    for end in ends:
        in_force.setdefault(end.harness_id, accepted_harness(run.path, end))
        if end.kind == "harness":
            found.setdefault(end.harness_id, set()).add(end.weights_id)
    trained = run.trained_under()
    used = set().union(*trained.values()) if trained else set()
    tried = {
        entry.harness.id: entry.harness
        for entry in run.harnesses()
        if entry.rejection is None and entry.scores and entry.harness.id not in {*in_force, *used}
    }
    label = run.path.name
    rows = []
    for name, weights_id in run.kept_weights().items():
        step = 0 if name is None else int(name.removeprefix("step-"))
        under = [harnesses for at, harnesses in sorted(trained.items()) if at <= step]
        rows.append(
            Row(
                label=f"{label} θ0" if name is None else f"{label} step {step}",
                weights_id=weights_id,
                run=str(run.path),
                checkpoint=name,
                step=step,
                first=ends[0].weights_id,
                own=under[-1][0] if under else None,
                trained=frozenset(each for harnesses in under for each in harnesses),
            )
        )
    kept = {name: frozenset(ids) for name, ids in found.items()}
    return _Run(run, label, resolved, tuple(rows), in_force, kept, tuple(tried.values()))


def columns_of(
    runs: Sequence[_Run], parts: RolloutParts, held_out: int
) -> list[tuple[Column, Harness]]:
    """Return the columns: what runs had in force, then up to ``held_out`` that none had.

    Held out are the domain's other base harnesses, then candidates that runs scored but neither
    accepted nor trained under; these in the order of their content ids, which no score has a part
    in.
    """
    columns: dict[str, tuple[Column, Harness]] = {}
    used = {h for run in runs for row in run.rows for h in row.trained}
    for run in runs:
        first = next(iter(run.in_force))
        for harness_id, harness in run.in_force.items():
            was = columns.get(harness_id)
            name = "h0" if harness_id == first else harness.name
            label = was[0].label if was else f"{run.label} {name}"
            kind = (
                "first" if harness_id == first or (was and was[0].kind == "first") else "accepted"
            )
            found = run.found.get(harness_id, frozenset()) | (was[0].found if was else frozenset())
            starts = (*(was[0].first if was else ()), first)
            column = Column(label, harness_id, kind, found, tuple(dict.fromkeys(starts)))
            columns[harness_id] = (column, harness)
    base = [
        (f"base {name}", Harness(content_hash(source), source, name))
        for name, source in parts.domain.harnesses.items()
    ]
    tried = [(f"{run.label} {each.name}", each) for run in runs for each in run.tried]
    spare = [*base, *sorted(tried, key=lambda pair: pair[1].id)]
    left = held_out
    for label, harness in spare:
        if left and harness.id not in columns and harness.id not in used:
            columns[harness.id] = (Column(label, harness.id, "held-out"), harness)
            left -= 1
    return list(columns.values())


def runs_at(paths: Sequence[Path]) -> list[StoredRun]:
    """Open the run folders, each once."""
    return [StoredRun.open(path) for path in dict.fromkeys(path.resolve() for path in paths)]
