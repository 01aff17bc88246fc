"""Trainer ``torch``: optimizer steps in this process, on one device.

An update computes gradients on a module (``places`` says which), sums them in float32 over
micro-batches, moves the float32 masters, and rounds these back into the module's parameters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from whale_core.errors import RunFolderError, TrainerError
from whale_core.records import Row
from whale_core.roles import RolloutEngine
from whale_rsft.checkpointing import checkpointable
from whale_rsft.config import Config
from whale_rsft.gradients import backward, check_head, gradients_into, shares_prefixes
from whale_rsft.lora import Adapter, targets
from whale_rsft.losses import row_weights
from whale_rsft.masters import Masters, State
from whale_rsft.packing import pack_rows
from whale_rsft.places import Place, place_of
from whale_rsft.trainers import Update, Updates, trained_tokens

REASON_LENGTH = 200


class TorchTrainer:
    """Makes updates; its state, which lives across phases, begins with the first of them."""

    def __init__(self, config: Config, seed: int = 0) -> None:
        """Take the settings; allocates nothing."""
        self._config = config
        self._seed = seed
        self._state: State | None = None
        self._engine: RolloutEngine | None = None
        self._place: Place | None = None

    def check(self) -> None:
        """Nothing is needed that is not installed with this package."""

    async def prepare(self, engine: RolloutEngine) -> None:
        """Check that what ``engine`` serves can be trained, and goes with the state.

        Raises:
            InputError: the settings do not fit the engine or its model.
            RunFolderError: the engine serves other weights than those trained so far.
        """
        await self._where(engine).run(self._check)

    async def train(self, minibatches: Sequence[Sequence[Row]], engine: RolloutEngine) -> Updates:
        """Make one update per minibatch that has a trained token.

        An update is made whole or not at all.

        Raises:
            InputError: the settings do not fit the engine or its model.
            RunFolderError: the engine serves other weights than those trained so far.
            TrainerError: computing failed (memory, say): that update and those after it are not
                made. Or the engine does not serve what was handed over.
        """
        trained = [rows for rows in minibatches if trained_tokens(rows)]
        if not trained:
            return Updates()
        place = self._where(engine)
        try:
            updates = await place.run(partial(self._train, trained))
        except (RuntimeError, MemoryError) as error:
            await place.hand_over(trained[0][0])  # there may have been an update before
            said = " ".join(str(error).split())[:REASON_LENGTH]
            raise TrainerError(
                f"a weight update failed and was not made ({type(error).__name__}: {said}): resume "
                "the run; if memory ran out, with a smaller model_update.micro_tokens in a new one"
            ) from error
        await place.hand_over(trained[0][0])
        return updates

    async def save(self, path: Path) -> None:
        """Write the state into the folder ``path`` (an empty one before the first update)."""
        state = self._state or Masters({}, self._config)
        await asyncio.to_thread(state.write, path)

    async def load(self, path: Path, engine: RolloutEngine) -> None:
        """Restore the state from the folder ``path``.

        Raises:
            InputError: the settings do not fit the engine or its model.
            RunFolderError: no state there, or its masters do not round to the served weights.
        """
        await self._where(engine).run(partial(self._load, path))

    async def close(self) -> None:
        """Drop the module if it is the trainer's own; the state stays. Idempotent."""
        if self._place is not None:
            await self._place.close()
        self._place, self._engine = None, None

    def _where(self, engine: RolloutEngine) -> Place:
        if self._place is None or self._engine is not engine:
            self._engine, self._place = engine, place_of(engine, self._config.device)
        return self._place

    def _load(self, path: Path, module: nn.Module) -> None:
        device = next(module.parameters()).device
        if self._config.lora.rank:
            self._state = Adapter.read(path, self._config, device)
        else:
            state = Masters.read(path, self._config, device)
            self._state = state if state.masters else None
        self._check_state(module)

    def _check(self, module: nn.Module) -> None:
        if self._config.lora.rank:
            targets(module, self._config.lora.targets)
        if self._config.gradient_checkpointing:
            checkpointable(module)
        if self._config.logits_at_once:
            check_head(module)
        self._check_state(module)

    def _check_state(self, module: nn.Module) -> None:
        if self._state is not None and not self._state.match(_parameters(module)):
            raise RunFolderError(
                "the engine does not serve the weights that this optimizer state belongs to: "
                "load the weights and the optimizer state of the same checkpoint"
            )

    def _attach(self, module: nn.Module) -> State:
        self._check_state(module)
        if self._state is None:
            self._state = (
                Adapter.new(module, self._config, self._seed)
                if self._config.lora.rank
                else Masters(_parameters(module), self._config)
            )
        return self._state

    def _train(self, minibatches: Sequence[Sequence[Row]], module: nn.Module) -> Updates:
        parameters = _parameters(module)
        state = self._attach(module)
        before = {name: parameters[name].detach().clone() for name in state.names}
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
        state: State,
    ) -> Update:
        config = self._config
        weights, divisor = row_weights(rows, config.loss, config.ranks)
        budget = config.micro_tokens if shares_prefixes(module) else 0
        packs = pack_rows(rows, budget, weights)
        with gradients_into(parameters, state.sinks()):
            loss = backward(
                module,
                packs,
                divisor,
                checkpoint=config.gradient_checkpointing,
                logits_at_once=config.logits_at_once,
            )
        computed = sum(len(pack.input_ids) for pack in packs)
        update = Update(trained_tokens(rows), computed, loss, state.clip(), divisor)
        if update.made:
            state.step()
            state.round_into(parameters)
        return update


def _parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    return dict(module.named_parameters())  # a tied parameter appears once


def _changed_share(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float:
    changed = sum(int(torch.count_nonzero(old != after[name])) for name, old in before.items())
    return changed / sum(tensor.numel() for tensor in after.values())
