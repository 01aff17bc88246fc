"""All replicas together: opened, checked, handed new weights, asked what they serve."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from whale_core.errors import EngineError, InputError
from whale_core.keys import generator
from whale_core.records import Json
from whale_core.waiting import Progress
from whale_vllm.decoding import PROCESSED, RAW
from whale_vllm.model import Model, check_same_config, check_same_model
from whale_vllm.replica import Configuration, Pool, Replica

T = TypeVar("T")

OLDEST = (0, 32)  # the first whose endpoints name the weights and give their digests
POLL_SECONDS = 0.5
# Of both alphabets, digits and spaces: two tokenizers that agree on this are the same one.
SAMPLE = "Ünïcödé and 漢字, 1234567890 tokens:\n\n\tdef f(x):  return x**2  # don't"
GUESSES = 4  # prompts that tell the modes apart, also where a model is certain of the next token


class Fleet:
    """The replicas of one engine.

    Work with them goes on in ``async with fleet:``: connections belong to an event loop, and a run
    has several, one after the other.
    """

    def __init__(self, pool: Pool) -> None:
        """Talk to the replicas of ``pool``."""
        self.pool = pool
        self.replicas: list[Replica] = []
        self._users = 0
        self._digests: dict[str, Mapping[str, str]] = {}  # weights id -> what servers computed with

    def __len__(self) -> int:
        """Return how many they are."""
        return len(self.pool.names)

    async def __aenter__(self) -> Fleet:
        """Connect, unless somebody in this event loop is connected already."""
        if self._users == 0:
            self.replicas = self.pool.connect()
        self._users += 1
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close the connections when nobody uses them any more."""
        self._users -= 1
        if self._users == 0:
            self.replicas = []
            await self.pool.disconnect()

    async def each(self, work: Callable[[Replica], Coroutine[Any, Any, T]]) -> list[T]:
        """Return what ``work`` makes of each replica, all at once; raise the first one's error.

        One that was started here and has ended is named before what follows from it.
        """
        made = await asyncio.gather(*map(work, self.replicas), return_exceptions=True)
        failed = [each for each in made if isinstance(each, BaseException)]
        if failed:
            await self.pool.check_alive()
            raise failed[0]
        return [each for each in made if not isinstance(each, BaseException)]

    async def wait(self, seconds: float) -> None:
        """Wait until all replicas are healthy. Raise ``EngineError`` when one ends, or it takes
        longer than ``seconds`` (``engine.start_seconds``)."""
        progress = Progress(f"waiting for {len(self)} vLLM replica(s)")
        while True:
            healthy = await asyncio.gather(*(one.healthy() for one in self.replicas))
            if all(healthy):
                return
            await self.pool.check_alive()
            one = self.replicas[healthy.index(False)]
            if not self.pool.ours:
                raise one.error("it does not answer; is it running, is engine.urls right?")
            if progress.tick() > seconds:
                raise one.error(f"it is not ready after {seconds:g} s (engine.start_seconds)")
            await asyncio.sleep(POLL_SECONDS)

    async def versions(self) -> str:
        """Return which vLLM runs there. Raise ``InputError`` for one that is too old."""
        found = sorted(set(await self.each(lambda one: one.version())))
        for version in found:
            numbers = re.match(r"(\d+)\.(\d+)", version)
            if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST:
                raise InputError(
                    f"engine vllm: vLLM {version} is too old: 0.32 or later is needed (beside "
                    "OpenRLHF, which asks for an older one: docs/cluster.md)"
                )
        return ", ".join(found)

    async def check_fits(self, model: Model, max_context: int) -> None:
        """Raise ``InputError`` for a server that cannot serve this model's weights to a run."""

        async def check(one: Replica) -> None:
            longest = await one.longest()
            if longest <= max_context:
                raise InputError(
                    f"{one.name}: its context has {longest} tokens, the run needs "
                    f"{max_context + 1}; start it with --max-model-len {max_context + 1}, or set "
                    f"engine.max_context={longest - 1}"
                )
            if await one.tokenize(SAMPLE) != model.tokenizer.encode(SAMPLE, special=True):
                raise InputError(
                    f"{one.name}: its tokenizer is not that of engine.model: it serves "
                    "another model"
                )
            try:
                await one.weight_version()
            except EngineError as error:
                if self.pool.ours:
                    raise
                raise InputError(
                    f"{one.name}: it does not say which weights it serves "
                    f"({error}); start it with VLLM_SERVER_DEV_MODE=1, vLLM >= 0.32"
                ) from error
            if not self.pool.ours:
                _check_started_with(one, await one.configuration(), model)

        await self.each(check)

    async def mode(self, model: Model) -> str:
        """Return which log-probabilities the servers tell. Raise ``InputError`` if they differ."""
        modes = await self.each(lambda one: _mode_of(one, model))
        if len(set(modes)) > 1:
            told = ", ".join(
                f"{one.name} {mode}" for one, mode in zip(self.replicas, modes, strict=True)
            )
            raise InputError(f"engine vllm: replicas differ in --logprobs-mode: {told}")
        return modes[0]

    async def check_sleep(self) -> None:
        """Raise ``InputError`` for a replica that cannot free its memory."""

        async def check(one: Replica) -> None:
            if not (await one.configuration()).sleeps:
                raise InputError(
                    f"engine.sleep=true: {one.name} was started without --enable-sleep-mode: start "
                    "it so (vLLM has it on GPUs), or leave engine.sleep out"
                )

        await self.each(check)

    async def set_weights(self, folder: Path, weights_id: str, asleep: bool = False) -> None:
        """Have every replica serve the weights in ``folder``, whose content hash is ``weights_id``.

        One operation: wake if ``asleep``, pause, load, forget cached prompts, name the weights, go
        on; then what is served is read back. One that says it loaded them but computes with what it
        had is found out by the digests of its tensors. After an ``EngineError`` nobody knows what
        is served, and replicas may be paused: nothing may be asked of them before this has
        succeeded.
        """

        async def hand_over(one: Replica) -> Mapping[str, str]:
            if asleep:
                await one.wake()
            await one.pause()
            await one.reload(folder)
            await one.forget()
            digests = await one.checksums()
            await one.set_weight_version(weights_id)
            await one.resume()
            return digests

        found = await self.each(hand_over)
        for one, digests in zip(self.replicas, found, strict=True):
            self._check_digests(one, weights_id, digests)
        await self.check_serving(weights_id)

    def _check_digests(self, one: Replica, weights_id: str, digests: Mapping[str, str]) -> None:
        for known, others in self._digests.items():
            if (known == weights_id) != (digests == others):
                what = "other numbers than before" if known == weights_id else f"those of {known}"
                raise one.error(
                    f"it was told to load weights {weights_id} and computes with {what}"
                )
        self._digests.setdefault(weights_id, digests)

    async def check_serving(self, weights_id: str) -> None:
        """Raise ``EngineError`` unless every server says that it serves these weights."""
        versions = await self.each(lambda one: one.weight_version())
        for one, version in zip(self.replicas, versions, strict=True):
            if version != weights_id:
                raise one.error(f"it serves weights {version[:40]!r}, the run's are {weights_id}")


def _check_started_with(one: Replica, found: Configuration, model: Model) -> None:
    """Raise ``InputError`` for a server that computes in other numbers than the run's, or whose
    model, where its folder can be read here, is another one than the run's."""
    if found.dtype != model.dtype:
        raise InputError(
            f"{one.name}: it computes in {found.dtype}, the run's model is {model.dtype}: start it "
            f"with --dtype {model.dtype}, or set engine.dtype={found.dtype}"
        )
    if not (folder := Path(found.model)).is_dir():
        return
    try:
        check_same_model(folder, model)
        check_same_config(folder, model)
    except InputError as error:
        raise InputError(
            f"{one.name}: it was started with another model than engine.model: {error}"
        ) from error


async def _mode_of(one: Replica, model: Model) -> str:
    """Return the mode of a server's log-probabilities: with ``top_k=1`` the filtered policy is
    certain of its only token, the raw one hardly ever is."""
    for guess in range(GUESSES):
        ids = generator("logprobs-mode", guess).integers(0, model.vocabulary, 8)
        body: dict[str, Json] = {
            "prompt": [int(index) for index in ids],
            "max_tokens": 1,
            "temperature": 1.0,
            "top_k": 1,
            "logprobs": 0,
            "return_token_ids": True,
        }
        answer = await one.complete(body)
        try:
            (logprob,) = answer["choices"][0]["logprobs"]["token_logprobs"]
            certain = float(logprob) > -1e-6
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise one.error("/v1/completions tells no log-probabilities: is it vLLM?") from error
        if not certain:
            return RAW
    return PROCESSED
