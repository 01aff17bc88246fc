"""What this package registers; the libraries are imported when a run uses them."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl

CONFIG = "whale_trackers.registered:Config"


@hookimpl
def whale_register_trackers() -> list[Registration]:
    """Register the trackers of this package."""
    return [
        Registration(
            name="tensorboard",
            factory="whale_trackers.registered:tensorboard",
            config=CONFIG,
            summary="event files of TensorBoard in the run's folder",
        ),
        Registration(
            name="wandb",
            factory="whale_trackers.registered:wandb",
            config=CONFIG,
            summary="a run of Weights & Biases",
        ),
        Registration(
            name="mlflow",
            factory="whale_trackers.registered:mlflow",
            config=CONFIG,
            summary="a run of MLflow",
        ),
    ]
