"""The rollout engine ``vllm``: token ids to vLLM and back, weights by published folders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whale_core.checkpoint import checkpoint_hash
from whale_core.errors import EngineError, InputError
from whale_core.plugins import Setup
from whale_core.records import Fault, Generation, GenerationRequest, Json, Sampling, Spent
from whale_vllm import actors, servers
from whale_vllm.completions import (
    Unusable,
    body_of,
    generation_of,
    scores_of,
    scoring_body,
)
from whale_vllm.config import Config
from whale_vllm.decoding import needed_mode, problem_with
from whale_vllm.fleet import Fleet
from whale_vllm.model import Model, check_same_model, copy_model, open_model
from whale_vllm.replica import Pool, Replica


class VLLMEngine:
    """Implements ``RolloutEngine``, ``GivesLogprobs``, ``ProbesDecoding``, ``Sleeps`` and
    ``ReadsAgain`` of the core.

    Requests go to the replicas (servers, or Ray actors) by their place in the batch, in runs of
    neighbours: the rollouts of a prompt stand together and share its keys and values. A replica
    that dies ends the batch: the run stops and can be resumed with new ones; none is left out
    silently.
    """

    def __init__(self, config: Config, setup: Setup) -> None:
        """Read the model's folder. Raise ``InputError`` when it cannot be found, read or served.

        Replicas are neither asked nor started yet: ``probe`` does, or the first use.
        """
        self._config = config
        self._model: Model = open_model(config.model, config.dtype)
        self.tokenizer = self._model.tokenizer
        self.vocabulary = self._model.vocabulary
        longest = self._model.longest - 1 if self._model.longest else config.max_context
        # A place is kept free: a whole row is scored by sampling a token after it.
        self.max_context = min(config.max_context, longest)
        self._ends = sorted(self.tokenizer.end_tokens)
        self._initial: str | None = None
        self._served: str | None = None  # the weights' id; None: nobody knows
        self._source = self._model.folder  # where they can be read again
        self._fleet: Fleet | None = None
        self._asleep = False
        self._mode = ""
        self._version: str | None = None
        self._opening = asyncio.Lock()

    def facts(self) -> Mapping[str, Json]:
        """Return what defines the engine's numbers, for the manifest."""
        config = self._config
        return {
            "engine": "vllm",
            "model": config.model,
            "initial_weights": self._initial_id(),
            "dtype": self._model.dtype,
            "servers": len(config.urls) or config.replicas,
            "tensor_parallel": None if config.urls else config.tensor_parallel,
            "arguments": list(config.arguments),
            "logprobs_mode": self._mode or None,
            "max_context": self.max_context,
            "vllm": self._version,
        }

    async def probe(self, sampling: Sampling) -> Spent:
        """Start or find the replicas, check that they fit, and hand them the initial weights.

        Raises:
            InputError: they serve another model, lack what is needed, cannot tell the
                log-probabilities of this decoding, or cannot sleep where they are to; there is no
                such Ray cluster, or it has too few GPUs.
            EngineError: one cannot be reached, does not start, or answers with errors.
        """
        await self._open(sampling)
        problem = problem_with(sampling, self._mode)
        if problem is not None:
            raise InputError(f"engine vllm: {problem}")
        return Spent()

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation | Fault]:
        """Return one answer per request, in order.

        An answer that cannot be right is its request's ``Fault``. Raise ``EngineError`` for a
        prompt that does not fit, a decoding whose log-probabilities the servers do not tell, and
        for the whole batch when any server does not serve the run's weights before and after it.
        """
        batch = list(requests)
        if not batch:
            return []
        fleet = await self._awake(batch[0].sampling)
        weights_id = self._weights()
        limits = [self._limit(request) for request in batch]
        share = [index * len(fleet) // len(batch) for index in range(len(batch))]
        async with fleet:
            await fleet.check_serving(weights_id)
            made = await asyncio.gather(
                *(
                    self._one(fleet.replicas[place], request, limit, weights_id)
                    for place, request, limit in zip(share, batch, limits, strict=True)
                )
            )
            await fleet.check_serving(weights_id)
        return list(made)

    async def logprobs(self, token_ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return ``log p(token_ids[t] | token_ids[:t])`` for t = 1, …, n - 1, at temperature 1, as
        the first replica computes it. Raise ``EngineError`` on a fault."""
        if not 2 <= len(token_ids) <= self.max_context:
            raise EngineError(
                f"{len(token_ids)} tokens cannot be scored: 2 to {self.max_context} can "
                "(engine.max_context)"
            )
        fleet = await self._awake(Sampling())
        weights_id = self._weights()
        async with fleet:
            await fleet.check_serving(weights_id)
            one = fleet.replicas[0]
            try:
                scores = scores_of(await one.complete(scoring_body(token_ids)), token_ids)
            except Unusable as error:
                raise one.error(f"/v1/completions: {error}") from error
            await fleet.check_serving(weights_id)
        return scores

    async def weights_id(self) -> str:
        """Return the content hash of the weights now served."""
        return self._initial_id() if self._fleet is None else self._weights()

    async def load(self, path: Path | None) -> str:
        """Hand the checkpoint folder ``path`` (None: the initial model) to every replica.

        The folder must stay as it is until another is loaded or named (``kept_at``): ``save``
        copies it, and what was asleep reads it. Raise ``InputError`` for weights that are damaged,
        not finite, or another model's: then those that were served still are.
        """
        folder = self._model.folder if path is None else path.absolute()
        check_same_model(folder, self._model)
        weights_id = await asyncio.to_thread(checkpoint_hash, folder, self._model.dtype)
        fleet = await self._open(Sampling())
        async with self._opening:
            await self._set_weights(fleet, weights_id, folder)
        return weights_id

    async def save(self, path: Path) -> str:
        """Copy the folder whose weights are served; return their id, read from the copy."""
        weights_id, folder = await self.weights_id(), self._source

        def copy() -> str:
            copy_model(folder, self._model.folder, path)
            return checkpoint_hash(path, self._model.dtype)

        try:
            saved = await asyncio.to_thread(copy)
        except (FileNotFoundError, InputError) as error:
            raise EngineError(f"the served weights' folder {folder} is gone: {error}") from error
        if saved != weights_id:
            raise EngineError(
                f"the served weights' folder {folder} was changed since it was loaded: it holds "
                f"{saved}, {weights_id} are served"
            )
        return saved

    def kept_at(self, path: Path) -> None:
        """Read the served weights from ``path`` from now on."""
        self._source = path.absolute()

    async def sleep(self) -> None:
        """Free the memory of weights and cache, if ``engine.sleep`` is set, until the next use."""
        if not self._config.sleep or self._fleet is None:
            return
        async with self._opening:
            if not self._asleep:
                self._asleep = True  # also where it fails: what has gone to sleep must be woken
                async with self._fleet as fleet:
                    await fleet.each(lambda one: one.sleep())

    async def forget(self) -> None:
        """Drop cached prompts. Asleep, there are none."""
        if self._fleet is not None and not self._asleep:
            async with self._fleet as fleet:
                await fleet.each(lambda one: one.forget())

    async def close(self) -> None:
        """End the replicas that were started here. Idempotent."""
        fleet, self._fleet, self._asleep = self._fleet, None, False
        failed, self._served, self._source = self._served is None, None, self._model.folder
        if fleet is not None:
            await fleet.pool.end(keep_logs=failed)

    async def _open(self, sampling: Sampling) -> Fleet:
        """Return the replicas, started and checked first if this is the first use.

        ``sampling`` decides which log-probabilities those tell that are started here.
        """
        async with self._opening:
            if self._fleet is not None:
                return self._fleet
            fleet = Fleet(await self._begin(sampling))
            try:
                async with fleet:
                    await self._prepare(fleet)
            except BaseException:
                await fleet.pool.end(keep_logs=True)
                raise
            self._fleet = fleet
            return fleet

    async def _awake(self, sampling: Sampling) -> Fleet:
        """Return the replicas as ``_open`` does, woken with the run's weights if they sleep."""
        fleet = await self._open(sampling)
        async with self._opening:
            if self._asleep and (served := self._served) is not None:
                try:
                    await self._set_weights(fleet, served, self._source)
                finally:
                    self._served = served  # if it was given up, the next use does all of it again
        return fleet

    async def _begin(self, sampling: Sampling) -> Pool:
        config = self._config
        if config.urls:
            return servers.ServerPool(config.urls, (), config.timeout)
        mode = needed_mode(sampling)
        if problem := problem_with(sampling, mode):
            raise InputError(f"engine vllm: {problem}")
        longest, model = self.max_context + 1, self._model
        given = (config, model.folder, model.dtype, mode, longest)
        if config.transport == "ray":
            return await asyncio.to_thread(actors.start, *given)
        started = servers.start(*given)
        return servers.ServerPool([server.url for server in started], started, config.timeout)

    async def _prepare(self, fleet: Fleet) -> None:
        await fleet.wait(self._config.start_seconds)
        self._version = await fleet.versions()
        await fleet.check_fits(self._model, self.max_context)
        if self._config.sleep:
            await fleet.check_sleep()
        # Whatever one was started with: from here on it is known what it serves. A run that was
        # killed may have left a running one asleep or paused, so nothing is asked of it before.
        self._asleep = not fleet.pool.ours
        initial = await asyncio.to_thread(self._initial_id)
        await self._set_weights(fleet, initial, self._model.folder)
        self._mode = await fleet.mode(self._model)

    async def _set_weights(self, fleet: Fleet, weights_id: str, folder: Path) -> None:
        """Have all serve the weights in ``folder``, awake; nobody knows what is served if it
        fails."""
        self._served = None
        async with fleet:
            await fleet.set_weights(folder, weights_id, asleep=self._asleep)
        self._served, self._source, self._asleep = weights_id, folder, False

    async def _one(
        self, one: Replica, request: GenerationRequest, limit: int, weights_id: str
    ) -> Generation | Fault:
        try:
            answer = await one.complete(body_of(request, limit, self._ends))
            return generation_of(
                answer, request, limit, self.tokenizer, self.vocabulary, weights_id
            )
        except Unusable as error:
            return Fault(str(one.error(f"an answer cannot be right: {error}")))
        except EngineError as error:
            return Fault(str(error))

    def _limit(self, request: GenerationRequest) -> int:
        """Return how many tokens are asked for. Raise ``EngineError`` for a request that cannot be
        sent."""
        if problem := problem_with(request.sampling, self._mode):
            raise EngineError(problem)
        length = len(request.prompt_ids)
        if length == 0:
            raise EngineError("a request has an empty prompt")
        room = self.max_context - length
        if room < 1:
            raise EngineError(
                f"a prompt of {length} tokens does not fit the context of {self.max_context} "
                "tokens (engine.max_context)"
            )
        return max(1, min(request.max_tokens, room))

    def _weights(self) -> str:
        if self._served is None:
            raise EngineError("the last loading of weights failed: nobody knows what is served")
        return self._served

    def _initial_id(self) -> str:
        if self._initial is None:
            self._initial = checkpoint_hash(self._model.folder, self._model.dtype)
        return self._initial
