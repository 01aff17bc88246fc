"""The observer that all trackers share, and one function for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from attrs import define, field
from attrs.validators import in_

from whale_core.plugins import hookimpl
from whale_core.plugins.events import Evaluation, PhaseInfo, RunInfo
from whale_core.roles import PhaseResult, SearchIteration, WeightStep
from whale_trackers import numbers
from whale_trackers.axis import AXES, Progress


class Writer(Protocol):
    """What a tracker's own part does."""

    def begin(self, run: RunInfo, axis: str) -> None:
        """Find or open the tracker's run; a continued run goes on in the one that it had."""
        ...

    def write(self, values: Mapping[str, float], axis: str, x: float) -> None:
        """Write numbers at ``x``, which counts ``axis``."""
        ...

    def end(self) -> None:
        """End the tracker's run if ``begin`` opened it."""
        ...


@define
class Tracking:
    """Hands a run's numbers to ``writer``, each name after ``prefix``.

    ``x`` is what they are drawn over: ``rollouts``, ``tokens``, ``seconds`` or ``weight_step``
    (steps since the run began). It stays quiet where ``writer`` could not begin.
    """

    writer: Writer
    prefix: str = ""
    x: str = field(default="rollouts", validator=in_(AXES))
    _progress: Progress | None = field(default=None, init=False)

    @hookimpl
    def whale_on_run_started(self, run: RunInfo) -> None:
        """Find or open the tracker's run."""
        self._progress = None
        self.writer.begin(run, f"{self.prefix}{self.x}")
        self._progress = Progress(run.folder)

    @hookimpl
    def whale_on_weight_step(self, step: WeightStep) -> None:
        """Write a step's numbers."""
        self._write(numbers.of_weight_step(step))

    @hookimpl
    def whale_on_search_iteration(self, iteration: SearchIteration) -> None:
        """Write an iteration's numbers."""
        self._write(numbers.of_search_iteration(iteration))

    @hookimpl
    def whale_on_evaluation(self, evaluation: Evaluation) -> None:
        """Write a score."""
        self._write(numbers.of_evaluation(evaluation))

    @hookimpl
    def whale_after_phase(self, phase: PhaseInfo, result: PhaseResult) -> None:
        """Write where the run is."""
        self._write(numbers.of_phase(phase, result))

    @hookimpl
    def whale_on_run_finished(self) -> None:
        """End the tracker's run if it was opened for this one."""
        self.end()

    async def close(self) -> None:
        """End the tracker's run after a run that stopped before its end."""
        self.end()

    def end(self) -> None:
        """Write nothing more."""
        if self._progress is not None:
            self._progress = None
            self.writer.end()

    def _write(self, values: Mapping[str, float]) -> None:
        if self._progress is not None:
            named = {f"{self.prefix}{name}": value for name, value in values.items()}
            self.writer.write(named, f"{self.prefix}{self.x}", self._progress.at(self.x))


def to_tensorboard(writer: Any = None, *, prefix: str = "", x: str = "rollouts") -> Tracking:
    """Return an observer that writes to TensorBoard.

    Args:
        writer: the program's own ``SummaryWriter`` (of torch or tensorboardX), which stays open;
            None writes into ``tensorboard/`` in the run's folder.
        prefix: stands before each name.
        x: see ``Tracking``; a step of TensorBoard is a whole number, so seconds are rounded.
    """
    from whale_trackers.tensorboard import TensorBoardWriter

    return Tracking(TensorBoardWriter(writer), prefix, x)


def to_wandb(run: Any = None, *, prefix: str = "", x: str = "rollouts") -> Tracking:
    """Return an observer that writes to Weights & Biases.

    Args:
        run: a run that the program has opened; None is the one that is open when the run starts
            (``wandb.run``). Only where there is none, one is opened, and ended with the run.
        prefix: stands before each name.
        x: see ``Tracking``; it becomes the metrics' ``step_metric``.
    """
    from whale_trackers.wandb import WandbWriter

    return Tracking(WandbWriter(run), prefix, x)


def to_mlflow(run_id: str | None = None, *, prefix: str = "", x: str = "rollouts") -> Tracking:
    """Return an observer that writes to MLflow, at ``MLFLOW_TRACKING_URI``.

    Args:
        run_id: a run that the program has opened; None is the one that is active here and now.
            Only where there is none, one is opened, and ended with the run.
        prefix: stands before each name.
        x: see ``Tracking``; a step of MLflow is a whole number, so seconds are rounded.
    """
    from whale_trackers.mlflow import MlflowWriter, active_run_id

    return Tracking(MlflowWriter(run_id or active_run_id()), prefix, x)
