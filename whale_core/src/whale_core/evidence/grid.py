"""Every θ of a set of runs under every harness: the records, and two figures of what carries over.

A *row* is weights, a *column* a harness; a cell has the mean of each example over its draws, on the
same examples and draw keys in all cells. Co-overfitting: a θ's gain over its run's first weights
under the harness it was trained under last, less its gain under harnesses it was never trained
with. Transfer: that second gain. The same for harnesses, rows and columns exchanged: the gain over
the run's first harness under the weights it was found with, and under weights that had no part in
it. What is neither home nor elsewhere is told apart as ``related``: harnesses that were found under
a θ, weights that were trained under a harness. All are paired by example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import asdict, frozen

from whale_core.records import Json
from whale_core.stats import Array, Interval, mean_interval, paired_difference

Gain = tuple[tuple[str, str], tuple[str, str]]
"""The cell after and the cell before, each by weights id and harness id."""


@frozen
class Row:
    """Weights: of which runs, from which checkpoint (None: the first model), after which step.

    ``own`` is the harness (content id) of the last step, ``trained`` those of all steps that led to
    these weights; none for first weights. ``first`` is the weights id that its run began with.
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
    the own gain is confirmed. ``related`` rows or columns belong to neither, since one was made
    with the other: of weights the harnesses that were found under them, of a harness the weights
    that were trained under it and all that came of these. ``related_gain`` is their mean gain.
    """

    subject: str
    home: str
    own: Interval
    others: Interval
    excess: Interval
    elsewhere: int
    related: int = 0
    related_gain: Interval | None = None

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
        """Return for each trained θ how its gain carries over to harnesses that it never trained
        with and that were not found under it."""
        figures = []
        labels = {column.harness_id: column.label for column in self.columns}
        for row in self.rows:
            strange = [c for c in self.columns if c.harness_id not in row.trained]
            others = [c for c in strange if row.weights_id not in c.found]
            related = [c for c in strange if row.weights_id in c.found]
            if row.own not in labels or not others:
                continue

            def gain(harness_id: str, row: Row = row) -> Gain:
                return (row.weights_id, harness_id), (row.first, harness_id)

            figures.append(
                self._carry(
                    row.label,
                    labels[row.own],
                    gain(row.own),
                    [gain(column.harness_id) for column in others],
                    [gain(column.harness_id) for column in related],
                )
            )
        return figures

    def harness_transfer(self) -> list[CarryOver]:
        """Return for each found harness how its gain carries over to weights that it was not found
        with and that were never trained under it (nor were those they come from)."""
        figures = []
        for column in self.columns:
            h = column.harness_id
            homes = [row for row in self.rows if row.weights_id in column.found]
            strange = [row for row in self.rows if row.weights_id not in column.found]
            others = [row for row in strange if h not in row.trained]
            related = [row for row in strange if h in row.trained]
            starts = [first for first in column.first if first != h]
            if not homes or not others or not starts:
                continue

            def gain(row: Row, h: str = h, h0: str = starts[0]) -> Gain:
                return (row.weights_id, h), (row.weights_id, h0)

            figures.append(
                self._carry(
                    column.label,
                    homes[0].label,
                    gain(homes[0]),
                    [gain(row) for row in others],
                    [gain(row) for row in related],
                )
            )
        return figures

    def _carry(
        self, subject: str, home: str, own: Gain, others: Sequence[Gain], related: Sequence[Gain]
    ) -> CarryOver:
        """Compare the gain ``own`` with the mean of the gains in ``others``."""
        after, before = self._means([own])
        after_else, before_else = self._means(others)
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
            related=len(related),
            related_gain=paired_difference(*self._means(related)) if related else None,
        )

    def _means(self, gains: Sequence[Gain]) -> tuple[Array, Array]:
        """Return the example means after and before, each averaged over ``gains``."""
        after, before = zip(*gains, strict=True)
        return (
            np.mean([self.array(*pair) for pair in after], axis=0),
            np.mean([self.array(*pair) for pair in before], axis=0),
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
