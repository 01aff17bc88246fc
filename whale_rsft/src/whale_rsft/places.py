"""Where the trained module is: with the engine that serves it, or with the trainer itself.

All else is the same for both. An engine that lends its module (``LendsModule``) serves what was
trained at once. Any other one saves its weights as a folder, of which the trainer makes a module of
its own; after training that module is published as another folder, which the engine loads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import nn

from whale_core.abilities import LendsModule, Sleeps
from whale_core.errors import InputError
from whale_core.records import Floats, Ids, Row
from whale_core.roles import RolloutEngine
from whale_rsft.folders import HALF_TOLERANCE, Folders, compare
from whale_rsft.text_part import check_text_model

T = TypeVar("T")

TOLERANCE = 1e-3  # mean absolute difference of log-probabilities, both in float32


class Place(Protocol):
    """Gives a trainer the module and has the engine serve what became of it."""

    async def run(self, work: Callable[[Any], T]) -> T:
        """Return ``work(module)``; the module has the weights that the engine serves."""
        ...

    async def hand_over(self, probe: Row) -> None:
        """Have the engine serve the module's weights, which may have changed.

        Where the engine can say, the log-probabilities of ``probe`` are compared.

        Raises:
            TrainerError: the engine does not serve them.
        """
        ...

    async def close(self) -> None:
        """Free everything. Idempotent."""
        ...


class Served:
    """The module is the one that the engine serves."""

    def __init__(self, engine: LendsModule, device: str) -> None:
        """Borrow from ``engine``; ``device`` is the configured one."""
        self._engine = engine
        self._device = device

    async def run(self, work: Callable[[Any], T]) -> T:
        """Return ``work(module)``, done on the engine's thread.

        Raises:
            InputError: another device is configured than the engine's.
        """

        def checked(module: Any) -> T:
            device = next(module.parameters()).device.type
            if self._device not in ("auto", device):
                raise InputError(
                    f"model_update.device={self._device}, but the engine's module, which is "
                    f"trained, is on {device}: leave it out, or set the engine's device"
                )
            return work(module)

        return await self._engine.borrow(checked)

    async def hand_over(self, probe: Row) -> None:
        """Have the engine take notice: it serves this very module."""
        await self._engine.refresh()

    async def close(self) -> None:
        """Nothing is held."""


class Owned:
    """The module is the trainer's own; weights travel as Hugging Face folders (``folders``)."""

    def __init__(self, engine: RolloutEngine, device: str) -> None:
        """Load nothing yet; ``device`` is the configured one."""
        self._engine = engine
        self._device = device
        self._module: nn.Module | None = None
        self._weights_id = ""  # what module and engine have in common, if known
        self._folders = Folders()

    async def run(self, work: Callable[[Any], T]) -> T:
        """Return ``work(module)``, done on a thread; loads the module if the engine's is another.

        An engine that can leaves its memory on the device to this meanwhile; ``hand_over``, or
        whatever asks it for something else, wakes it.

        Raises:
            InputError: the engine's saved weights make no module here.
        """
        if isinstance(self._engine, Sleeps):
            await self._engine.sleep()
        if self._module is None or self._weights_id != await self._engine.weights_id():
            await self._take()
        try:
            return await asyncio.to_thread(work, self._module)
        finally:
            torch.cuda.empty_cache()  # what torch keeps for itself, the engine could not have

    async def hand_over(self, probe: Row) -> None:
        """Publish the module as a folder, have the engine load it, and compare.

        Raises:
            TrainerError: the engine serves other weights afterwards.
        """
        module: Any = self._module
        if module is None:
            return  # there was nothing to train on
        self._weights_id = ""

        def save(folder: Path) -> None:
            with quiet():
                module.save_pretrained(folder)

        loaded = await self._folders.hand_over(
            self._engine, lambda folder: asyncio.to_thread(save, folder)
        )
        tolerance = tolerance_of(next(module.parameters()).dtype, self._engine)
        await compare(
            self._engine, probe, lambda ids: asyncio.to_thread(logprobs, module, ids), tolerance
        )
        self._weights_id = loaded

    async def close(self) -> None:
        """Drop the module and the folders."""
        self._module, self._weights_id = None, ""
        self._folders.close()

    async def _take(self) -> None:
        """Make the module anew, of what the engine serves."""
        self._module = None  # free its memory first
        try:
            folder, weights_id = await self._folders.take(self._engine)
            device = choose_device(self._device)
            self._module = await asyncio.to_thread(load_module, folder, device)
        except BaseException:
            await self.close()
            raise
        self._weights_id = weights_id


def place_of(engine: RolloutEngine, device: str) -> Place:
    """Return where the module of ``engine`` is trained."""
    if isinstance(engine, LendsModule):
        return Served(engine, device)
    return Owned(engine, device)


def choose_device(name: str) -> torch.device:
    """Return the device of a configured name.

    Raises:
        InputError: there is none.
    """
    there = [
        each
        for each, found in (
            ("cuda", torch.cuda.is_available()),
            ("mps", torch.backends.mps.is_available()),
            ("cpu", True),
        )
        if found
    ]
    if name == "auto":
        return torch.device(there[0])
    if name not in there:
        raise InputError(
            f"model_update.device={name}: there is none here; use {' or '.join(there)}"
        )
    return torch.device(name)


def tolerance_of(dtype: torch.dtype, engine: RolloutEngine) -> float:
    """Return how far log-probabilities of a module and of the engine may differ on average.

    One of them in 16 bits is enough for the wider bound: a server may compute in bfloat16 what it
    stores in float32. An engine that does not tell its dtype is taken to compute in the module's.
    """
    served = engine.facts().get("dtype", "float32")
    return TOLERANCE if dtype is torch.float32 and served == "float32" else HALF_TOLERANCE


def load_module(folder: Path, device: torch.device) -> nn.Module:
    """Return the causal language model of a Hugging Face folder, in the dtype it is stored in.

    Raises:
        InputError: the folder does not hold one, or not all of its parameters, or more than text.
    """
    from transformers import AutoModelForCausalLM

    try:
        check_text_model(folder)
        with quiet():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype="auto", local_files_only=True, output_loading_info=True
            )
        module, found = loaded
        module.to(device)
    except (OSError, ValueError, KeyError, RuntimeError) as error:  # memory too
        raise InputError(
            f"{folder}: the weights that the engine saved cannot be loaded for training on "
            f"{device} ({' '.join(str(error).split())[:200]})"
        ) from error
    if missing := sorted(found["missing_keys"]):
        raise InputError(
            f"{folder}: the weights that the engine saved lack {missing[0]} "
            f"(of {len(missing)} parameters): they cannot be trained"
        )
    result: nn.Module = module.requires_grad_(False).eval()
    return result


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the progress bars of ``transformers`` to themselves."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@torch.inference_mode()
def logprobs(module: Any, token_ids: Ids) -> Floats:
    """Return ``log p(token_ids[t] | token_ids[:t])`` for t = 1, …, n - 1, float32."""
    device = next(module.parameters()).device
    ids = torch.from_numpy(token_ids.astype(np.int64)).to(device)
    logits = module(input_ids=ids[None], use_cache=False).logits[0, :-1].float()
    logp = torch.log_softmax(logits, dim=-1)
    picked: Floats = logp.gather(-1, ids[1:, None])[:, 0].cpu().numpy()
    return picked
