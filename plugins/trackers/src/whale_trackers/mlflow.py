"""MLflow: the run that is active, or one that is found again by a tag.

The client is told the run's id each time: what is active is a matter of threads in MLflow, and
observers may be called in another one than the program's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from whale_core.plugins.events import RunInfo
from whale_trackers.axis import identity_of

TAG = "whale.run"


def active_run_id() -> str | None:
    """Return the id of the run that is active in this thread."""
    import mlflow

    active = mlflow.active_run()
    return None if active is None else str(active.info.run_id)


class MlflowWriter:
    """Writes to the run ``host``, or to one of its own."""

    def __init__(self, host: str | None = None) -> None:
        """Take the id of the run that the program has opened, if it has."""
        self._host = host
        self._own: str | None = None
        self._client: Any = None

    def begin(self, run: RunInfo, axis: str) -> None:
        """Open a run, or the one that was opened for this run before, unless there is a host."""
        from mlflow import MlflowClient

        self.end()  # of a run that stopped before its end
        self._client = MlflowClient()
        if self._host is None:
            self._own = self._opened(run.name, identity_of(run.folder))

    def write(self, values: Mapping[str, float], axis: str, x: float) -> None:
        """Log the numbers at the step ``x``, in one call."""
        from mlflow.entities import Metric

        now, step = round(1000 * time.time()), round(x)
        metrics = [Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._host or self._own, metrics=metrics)

    def end(self) -> None:
        """End the run if it was opened here."""
        if self._own is not None:
            self._client.set_terminated(self._own)
            self._own = None

    def _opened(self, name: str, identity: str) -> str:
        """Return the id of the run with this identity, open again, or of a new one."""
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", "Default")
        known = self._client.get_experiment_by_name(experiment)
        place = self._client.create_experiment(experiment) if known is None else known.experiment_id
        wanted = f"tags.`{TAG}` = '{identity}'"
        for found in self._client.search_runs([place], filter_string=wanted, max_results=1):
            self._client.update_run(found.info.run_id, status="RUNNING")
            return str(found.info.run_id)
        made = self._client.create_run(place, tags={TAG: identity}, run_name=name)
        return str(made.info.run_id)
