"""Trainer ``torch``: optimizer steps on one machine, on the very module the engine serves.

An update computes gradients on the served module, sums them in float32 over micro-batches, moves
the float32 masters, and rounds these back into the served parameters in place.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from attrs import frozen
from torch import Tensor, nn

from whale_core.abilities import LendsModule
from whale_core.errors import InputError, RunFolderError, TrainerError
from whale_core.records import Row
from whale_core.roles import RolloutEngine
from whale_rsft.config import Config
from whale_rsft.gradients import TokenLoss, backward, gradients_into
from whale_rsft.masters import Masters
from whale_rsft.packing import pack_rows

REASON_LENGTH = 200


@frozen
class Update:
    """One optimizer step: made, or refused because loss or gradient norm was not finite."""

    tokens: int  # trained tokens, a token of several rows counted for each
    computed_tokens: int  # packed tokens that went through the model
    loss: TokenLoss
    grad_norm: float  # before clipping

    @property
    def made(self) -> bool:
        """Whether the weights moved."""
        return math.isfinite(self.grad_norm) and math.isfinite(self.loss.nll)


@frozen
class Updates:
    """The updates of one weight step, in order."""

    updates: tuple[Update, ...] = ()
    changed_share: float | None = None  # of the served values, over all these updates


class TorchTrainer:
    """Makes updates; its state, which lives across phases, begins with the first of them."""

    def __init__(self, config: Config) -> None:
        """Take the settings; allocates nothing."""
        self._config = config
        self._state: Masters | None = None

    async def train(self, minibatches: Sequence[Sequence[Row]], engine: RolloutEngine) -> Updates:
        """Make one update per minibatch that has a trained token.

        An update is made whole or not at all.

        Raises:
            InputError: the engine cannot lend its module.
            RunFolderError: the engine serves other weights than those trained so far.
            TrainerError: computing failed (memory, say). That update and those after it are not
                made.
        """
        lender = lending(engine)
        trained = [rows for rows in minibatches if trained_tokens(rows)]
        if not trained:
            return Updates()
        try:
            updates = await lender.borrow(partial(self._train, trained))
        except (RuntimeError, MemoryError) as error:
            await lender.refresh()  # there may have been an update before
            said = " ".join(str(error).split())[:REASON_LENGTH]
            raise TrainerError(
                f"a weight update failed and was not made ({type(error).__name__}: {said}): resume "
                "the run; if memory ran out, with a smaller model_update.micro_tokens in a new one"
            ) from error
        await lender.refresh()
        return updates

    async def save(self, path: Path) -> None:
        """Write the state into the folder ``path`` (an empty one before the first update)."""
        state = self._state or Masters({}, self._config)
        await asyncio.to_thread(state.write, path)

    async def load(self, path: Path, engine: RolloutEngine) -> None:
        """Restore the state from the folder ``path``.

        Raises:
            InputError: the engine cannot lend its module.
            RunFolderError: no state there, or its masters do not round to the served weights.
        """
        await lending(engine).borrow(partial(self._load, path))

    def _load(self, path: Path, module: nn.Module) -> None:
        device = next(module.parameters()).device
        state = Masters.read(path, self._config, device)
        self._state = state if state.masters else None
        self._attach(_parameters(module))

    def _attach(self, parameters: Mapping[str, nn.Parameter]) -> Masters:
        if self._state is None:
            self._state = Masters(parameters, self._config)
        elif not self._state.match(parameters):
            raise RunFolderError(
                "the engine does not serve the weights that this optimizer state belongs to: "
                "load the weights and the optimizer state of the same checkpoint"
            )
        return self._state

    def _train(self, minibatches: Sequence[Sequence[Row]], module: nn.Module) -> Updates:
        parameters = _parameters(module)
        state = self._attach(parameters)
        before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        try:
            updates = tuple(self._update(rows, module, parameters, state) for rows in minibatches)
        finally:
            state.free_gradients()
        return Updates(updates, _changed_share(before, parameters))

    def _update(
        self,
        rows: Sequence[Row],
        module: nn.Module,
        parameters: Mapping[str, nn.Parameter],
        state: Masters,
    ) -> Update:
        packs = pack_rows(rows, self._config.micro_tokens)
        tokens = trained_tokens(rows)
        with gradients_into(parameters, state.zero_gradients()):
            loss = backward(module, packs, tokens)
        computed = sum(len(pack.input_ids) for pack in packs)
        update = Update(tokens, computed, loss, state.clip())
        if update.made:
            state.step()
            state.round_into(parameters)
        return update


def lending(engine: RolloutEngine) -> LendsModule:
    """Return ``engine`` as one that lends its module.

    Raises:
        InputError: it does not.
    """
    if not isinstance(engine, LendsModule):
        raise InputError(
            f"rsft trains the module that the engine serves; {type(engine).__name__} lends none: "
            "use the rollout engine transformers"
        )
    return engine


def trained_tokens(rows: Sequence[Row]) -> int:
    """Return how many tokens of ``rows`` are trained on."""
    return sum(int(row.loss_mask.sum()) for row in rows)


def _parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    return dict(module.named_parameters())  # a tied parameter appears once


def _changed_share(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float:
    changed = sum(int(torch.count_nonzero(before[name] != after[name])) for name in after)
    return changed / sum(tensor.numel() for tensor in after.values())
