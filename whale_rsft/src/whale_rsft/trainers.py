"""What trains: the protocol of a trainer, what it reports, and how a run gets one.

The method (``rsft``) decides what is trained on; a trainer makes the optimizer steps and sees to it
that the engine serves their result. This module imports nothing heavy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from whale_core.records import Row
from whale_core.roles import RolloutEngine
from whale_rsft.config import TRAINERS, Config


@frozen
class TokenLoss:
    """Sums over trained tokens, each times its weight in the loss; ``Update.divisor`` divides."""

    nll: float = 0.0
    gap: float = 0.0  # |log-probability here - at sampling|

    def __add__(self, other: TokenLoss) -> TokenLoss:
        return TokenLoss(self.nll + other.nll, self.gap + other.gap)


@frozen
class Update:
    """One optimizer step: made, or refused because loss or gradient norm was not finite."""

    tokens: int  # trained tokens, a token of several rows counted for each
    computed_tokens: int  # tokens that went through the model
    loss: TokenLoss
    grad_norm: float  # before clipping
    divisor: float = field()  # the loss is ``loss.nll / divisor``; token mean: ``tokens``

    @divisor.default
    def _token_mean(self) -> float:
        return self.tokens

    @property
    def made(self) -> bool:
        """Whether the weights moved."""
        return math.isfinite(self.grad_norm) and math.isfinite(self.loss.nll)


@frozen
class Updates:
    """The updates of one weight step, in order."""

    updates: tuple[Update, ...] = ()
    changed_share: float | None = None  # of the served values, over all these updates


class Trainer(Protocol):
    """Makes optimizer steps; its state lives across phases. Built as ``factory(config, seed)``.

    When ``train`` returns, the engine serves the weights that were trained: its ``weights_id()`` is
    theirs, and ``engine.save`` writes them. A continued run first has the engine load a checkpoint,
    then calls ``load`` with the state that ``save`` wrote beside it; the same minibatches must then
    lead to the same weights, bit for bit.
    """

    def check(self) -> None:
        """Check that what this trainer needs is installed; called before anything is spent.

        Raises:
            InputError: a package is missing, or of another version.
        """
        ...

    async def prepare(self, engine: RolloutEngine) -> None:
        """Get ready to train what ``engine`` serves; called when a phase begins, before rollouts.

        Raises:
            InputError: the settings do not fit the engine or its model.
            RunFolderError: the engine serves other weights than those trained so far.
        """
        ...

    async def train(self, minibatches: Sequence[Sequence[Row]], engine: RolloutEngine) -> Updates:
        """Make one update for each minibatch that has a trained token, in order.

        Within a minibatch the rows of one trajectory, and no others, share a
        ``Row.trajectory``. An update is made whole or not at all.

        Raises:
            InputError: the settings do not fit the engine or its model.
            RunFolderError: the engine serves other weights than those trained so far.
            TrainerError: computing failed, or the engine does not serve what was handed to it. That
                update and those after it are not made.
        """
        ...

    async def save(self, path: Path) -> None:
        """Write the state into the folder ``path``; files only (the core hashes them)."""
        ...

    async def load(self, path: Path, engine: RolloutEngine) -> None:
        """Restore the state from the folder ``path``; ``engine`` serves the matching weights.

        Raises:
            RunFolderError: no state there, or one of other weights.
        """
        ...

    async def close(self) -> None:
        """Free everything but the state: it may be used again. Idempotent."""
        ...


def make_trainer(config: Config, seed: int) -> Trainer:
    """Return the trainer that ``config.trainer`` names; its code is imported here.

    Raises:
        InputError: settings that do not go together.
    """
    module, name = TRAINERS[config.trainer].split(":")
    trainer: Trainer = getattr(import_module(module), name)(config, seed)
    return trainer


def trained_tokens(rows: Sequence[Row]) -> int:
    """Return how many tokens of ``rows`` are trained on."""
    return sum(int(row.loss_mask.sum()) for row in rows)
