"""RSFT alone, from Python: ``from whale_rsft.api import rsft``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whale_core.api import AnyHarness, Base, RunResult, Settings, run_phases

__all__ = ["rsft"]


def rsft(
    base: Base,
    settings: Settings | None = None,
    *,
    harness: AnyHarness | None = None,
    seed: int | None = None,
    run_dir: str | Path | None = None,
    progress: bool = True,
    observers: Sequence[object] = (),
) -> RunResult:
    """Train the weights under a harness that stays as it is: one weight phase of RSFT.

    A run with the model update ``rsft`` and the scheduler ``weight-only`` (``scheduler.epochs``),
    without a harness search. Arguments and errors are those of ``whale_core.api.run``. The result's
    ``checkpoint`` is the folder of the trained weights, ``steps`` are the weight steps.
    """
    method = {
        "model_update": "rsft",
        "scheduler": "weight-only",
        "harness_search": None,
        "proposer": None,
    }
    return run_phases(
        method,
        base,
        settings,
        harness=harness,
        seed=seed,
        run_dir=run_dir,
        progress=progress,
        observers=observers,
    )
