"""Observers that write a run's numbers to experiment trackers.

``whale_core.api.run("default", observers=[to_wandb()])`` from a program, ``trackers.use`` from the
command line.
"""

from __future__ import annotations

from whale_trackers.tracking import Tracking, Writer, to_mlflow, to_tensorboard, to_wandb

__all__ = ["Tracking", "Writer", "to_mlflow", "to_tensorboard", "to_wandb"]
