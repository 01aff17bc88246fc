"""Every θ of a set of runs under every harness: the records, and two figures of what carries over.

A *row* is weights, a *column* a harness; a cell has the mean of each example over its draws, on the
same examples and draw keys in all cells. Co-overfitting: a θ's gain over its run's first weights
under the harness it was trained under last, less its gain under harnesses it was never trained
with. Transfer: that second gain. The same for harnesses, rows and columns exchanged: the gain over
the run's first harness under the weights it was found with, and under all others. All are paired by
example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import asdict, frozen

from whale_core.records import Json
from whale_core.stats import Array, Interval, mean_interval, paired_difference


@frozen
class Row:
    """Weights: of which runs, from which checkpoint (None: the first model), after which step.

    ``own`` is the harness (content id) of the last step, ``trained`` those of all steps; none for
    first weights. ``first`` is the weights id that its run began with.
    """

    label: str
    weights_id: str
    run: str
    checkpoint: str | None
    step: int
    first: str
    own: str | None = None
    trained: frozenset[str] = frozenset()


@frozen
class Column:
    """A harness. ``kind`` is ``first``, ``accepted`` (at some phase's end) or ``held-out`` (no run
    ever had it in force). ``found`` are the weights ids under which searches accepted it, ``first``
    the ids of the harnesses that those runs began with."""

    label: str
    harness_id: str
    kind: str
    found: frozenset[str] = frozenset()
    first: tuple[str, ...] = ()


@frozen
class Cell:
    """What a pair scored: example id -> mean over its scored draws."""

    means: Mapping[str, float]


@frozen
class CarryOver:
    """How much of a gain carries over to what it was not made with.

    ``own`` is the gain where it was made, ``others`` the mean gain elsewhere (``elsewhere`` rows or
    columns), ``excess`` their difference: what does not carry over. ``share`` is others / own where
    the own gain is confirmed.
    """

    subject: str
    home: str
    own: Interval
    others: Interval
    excess: Interval
    elsewhere: int

    @property
    def share(self) -> float | None:
        """What share of the own gain carries over; None where that gain is not confirmed."""
        return self.others.mean / self.own.mean if self.own.low > 0 else None

    def as_json(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        return {**asdict(self), "share": self.share}


@frozen
class Grid:
    """All cells, by weights id and harness id. ``draws`` of each of ``examples`` examples."""

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[str, str], Cell]
    draws: int

    @property
    def examples(self) -> list[str]:
        """The examples that were scored in every cell, in order of their ids."""
        return sorted(set.intersection(*(set(cell.means) for cell in self.cells.values())))

    def interval(self, row: Row, column: Column) -> Interval:
        """Return the cell's mean with its 95 % interval, on all that was scored in it."""
        cell = self.cells[row.weights_id, column.harness_id]
        return mean_interval(np.array(list(cell.means.values())), self.draws)

    def array(self, weights_id: str, harness_id: str) -> Array:
        """Return the example means of a cell, shape (n,), in the order of ``examples``."""
        cell = self.cells[weights_id, harness_id]
        return np.array([cell.means[example] for example in self.examples])

    def weights_transfer(self) -> list[CarryOver]:
        """Return for each trained θ how its gain carries over to harnesses it never trained
        with."""
        found = []
        labels = {column.harness_id: column.label for column in self.columns}
        for row in self.rows:
            others = [c.harness_id for c in self.columns if c.harness_id not in row.trained]
            if row.own not in labels or not others:
                continue
            found.append(
                self._carry(
                    row.label,
                    labels[row.own],
                    [(row.weights_id, row.own), (row.first, row.own)],
                    [[(row.weights_id, h), (row.first, h)] for h in others],
                )
            )
        return found

    def harness_transfer(self) -> list[CarryOver]:
        """Return for each found harness how its gain carries over to weights it was not found
        with."""
        found = []
        rows = {row.weights_id: row.label for row in self.rows}
        for column in self.columns:
            homes = [w for w in rows if w in column.found]
            others = [w for w in rows if w not in column.found]
            starts = [h for h in column.first if h != column.harness_id]
            if not homes or not others or not starts:
                continue
            h, h0 = column.harness_id, starts[0]
            found.append(
                self._carry(
                    column.label,
                    rows[homes[0]],
                    [(homes[0], h), (homes[0], h0)],
                    [[(w, h), (w, h0)] for w in others],
                )
            )
        return found

    def _carry(
        self,
        subject: str,
        home: str,
        own: Sequence[tuple[str, str]],
        others: Sequence[Sequence[tuple[str, str]]],
    ) -> CarryOver:
        """Compare the gain ``own[0]`` over ``own[1]`` with the mean of the gains in ``others``."""
        after, before = (self.array(*pair) for pair in own)
        after_else = np.mean([self.array(*pair[0]) for pair in others], axis=0)
        before_else = np.mean([self.array(*pair[1]) for pair in others], axis=0)
        # The difference of two gains, halved, is a difference of means in [0, 1], for which there
        # is an interval: ((a + d) - (b + c)) / 2 of the gains a - b and c - d.
        half = paired_difference((after + before_else) / 2, (before + after_else) / 2)
        return CarryOver(
            subject=subject,
            home=home,
            own=paired_difference(after, before),
            others=paired_difference(after_else, before_else),
            excess=Interval(2 * half.mean, 2 * half.low, 2 * half.high),
            elsewhere=len(others),
        )

    def as_json(self) -> dict[str, Json]:
        """Return rows, columns, cells with intervals and both figures as plain JSON."""
        return {
            "rows": [{**asdict(row), "trained": sorted(row.trained)} for row in self.rows],
            "columns": [{**asdict(c), "found": sorted(c.found)} for c in self.columns],
            "cells": [
                {
                    "weights_id": row.weights_id,
                    "harness_id": column.harness_id,
                    **asdict(self.interval(row, column)),
                    "examples": len(self.cells[row.weights_id, column.harness_id].means),
                }
                for row in self.rows
                for column in self.columns
            ],
            "examples": len(self.examples),
            "draws": self.draws,
            "weights_transfer": [each.as_json() for each in self.weights_transfer()],
            "harness_transfer": [each.as_json() for each in self.harness_transfer()],
        }
