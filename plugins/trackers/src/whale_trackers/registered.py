"""The trackers as a run's settings name them: each needs its library to be installed."""

from __future__ import annotations

from importlib.util import find_spec

from attrs import field, frozen
from attrs.validators import in_

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_trackers.axis import AXES
from whale_trackers.tracking import Tracking, to_mlflow, to_tensorboard, to_wandb


@frozen
class Config:
    """The settings that a run has for all of its trackers."""

    prefix: str = ""
    """Stands before each number's name."""
    x: str = field(default="rollouts", validator=in_(AXES))
    """What the numbers are drawn over: `rollouts`, `tokens`, `seconds` or `weight_step`."""


def tensorboard(config: Config, setup: Setup) -> Tracking:
    """Return what ``to_tensorboard`` returns. Raises ``InputError`` without tensorboardX."""
    _require("tensorboardX", "tensorboard")
    return to_tensorboard(prefix=config.prefix, x=config.x)


def wandb(config: Config, setup: Setup) -> Tracking:
    """Return what ``to_wandb`` returns. Raises ``InputError`` without wandb."""
    _require("wandb", "wandb")
    return to_wandb(prefix=config.prefix, x=config.x)


def mlflow(config: Config, setup: Setup) -> Tracking:
    """Return what ``to_mlflow`` returns. Raises ``InputError`` without mlflow."""
    _require("mlflow", "mlflow")
    return to_mlflow(prefix=config.prefix, x=config.x)


def _require(module: str, name: str) -> None:
    if find_spec(module) is None:
        raise InputError(
            f"trackers.use: {name} needs {module}, which is not installed: "
            f"pip install 'whale-trackers[{name}]'"
        )
