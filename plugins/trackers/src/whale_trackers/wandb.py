"""Weights & Biases: the run that is open, or one under the run's own id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whale_core.plugins.events import RunInfo
from whale_trackers.axis import identity_of


class WandbWriter:
    """Writes to ``host``, to the run that is open, or to one of its own."""

    def __init__(self, host: Any = None) -> None:
        """Take the run that the program has opened, if it names one."""
        self._host = host
        self._run: Any = None
        self._own = False
        self._defined: set[str] = set()

    def begin(self, run: RunInfo, axis: str) -> None:
        """Find the open run; else open the one with this run's id, anew or again."""
        import wandb

        self.end()  # of a run that stopped before its end
        self._run = self._host or wandb.run
        if self._run is None:
            self._own = True
            self._run = wandb.init(
                id=identity_of(run.folder),
                name=run.name,
                resume="allow",
                dir=str(run.folder),
                config=dict(run.config),
            )
        self._defined.clear()
        self._run.define_metric(axis)

    def write(self, values: Mapping[str, float], axis: str, x: float) -> None:
        """Log the numbers with the axis beside them; the steps of the run are left to wandb.

        The axis is set name by name: a pattern could hold for metrics of the program's own, too.
        """
        for name in values:
            if name not in self._defined:
                self._run.define_metric(name, step_metric=axis)
                self._defined.add(name)
        self._run.log({**values, axis: x})

    def end(self) -> None:
        """Finish the run if it was opened here."""
        if self._own:
            self._run.finish()
        self._run, self._own = None, False
