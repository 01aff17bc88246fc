"""Replicas as Ray actors: placed on a cluster's GPUs, asked, ended with the engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whale_core import ray_connection
from whale_core.errors import EngineError, InputError
from whale_core.records import Json
from whale_vllm.arguments import arguments
from whale_vllm.config import Config
from whale_vllm.replica import CANNOT_SLEEP, Configuration, Replica, cannot_sleep

POLL_SECONDS = 2.0  # between looks at Ray's head
AT_ONCE = 1024  # requests of one actor; vLLM queues them itself
RESUME = "resume the run"


class RayReplica:
    """The actor ``actor``; implements ``Replica``. ``lost`` is done when Ray's head is gone."""

    def __init__(
        self, name: str, actor: Any, started: Any, lost: asyncio.Future[None], timeout: float
    ) -> None:
        """``started`` is the reference of what its ``start`` returns."""
        self.name = name
        self._actor = actor
        self._started = started
        self._lost = lost
        self._timeout = timeout

    async def healthy(self) -> bool:
        """Say whether it has started."""
        if not await asyncio.to_thread(_has_started, self._started):
            return False  # if it never will, ``RayPool.check_alive`` says why
        return bool(await self._asked("healthy"))

    async def version(self) -> str:
        """Return the version of vLLM that runs there."""
        return str(await self._asked("version"))

    async def longest(self) -> int:
        """Return how many tokens a context may have there."""
        return int(await self._asked("longest"))

    async def tokenize(self, text: str) -> list[int]:
        """Return the ids that its own tokenizer makes of ``text``."""
        return list(await self._asked("tokenize", text))

    async def complete(self, body: Mapping[str, Json]) -> Mapping[str, Any]:
        """Return the answer to a request, as ``/v1/completions`` has both."""
        answer: Mapping[str, Any] = await self._asked("complete", dict(body))
        return answer

    async def weight_version(self) -> str:
        """Return the name of the weights that are served, as it was last set."""
        return str(await self._asked("weight_version"))

    async def set_weight_version(self, version: str) -> None:
        """Name the weights that are served."""
        await self._asked("set_weight_version", version)

    async def checksums(self) -> Mapping[str, str]:
        """Return a digest of each tensor that it computes with."""
        digests: Mapping[str, str] = await self._asked("checksums")
        if not digests:
            raise self.error("it tells no checksums")
        return digests

    async def pause(self) -> None:
        """Let requests under way come to their end and begin no other."""
        await self._asked("pause")

    async def resume(self) -> None:
        """Begin requests again."""
        await self._asked("resume")

    async def reload(self, folder: Path) -> None:
        """Have it read the weights in ``folder``, which its machine must see."""
        await self._asked("reload", str(folder))

    async def forget(self) -> None:
        """Drop the cached keys and values of all prompts."""
        if not await self._asked("forget"):
            raise self.error("it did not reset its prefix cache")

    async def configuration(self) -> Configuration:
        """Return what it was started with."""
        return Configuration(*await self._asked("configuration"))

    async def sleep(self) -> None:
        """Let requests under way come to their end, and free the memory of weights and cache."""
        await self._asked("sleep")

    async def wake(self) -> None:
        """Take the memory again; the weights must be loaded before anything is asked."""
        if not await self._asked("wake"):
            raise self.error("it stays asleep")

    def error(self, problem: str) -> EngineError:
        """Return the error that this actor has ``problem``."""
        return EngineError(f"{self.name}: {problem}")

    async def _asked(self, method: str, *given: object) -> Any:
        """Return what the actor's ``method`` returns. Raise ``EngineError`` for anything else."""
        import ray

        ref = getattr(self._actor, method).remote(*given)
        answer = asyncio.wrap_future(ref.future())
        try:
            await asyncio.wait(
                {answer, self._lost}, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if self._lost.done():  # an actor may answer without it, but no failure could be mended
                raise self.error(f"{method}: Ray's head does not answer: {RESUME}")
            if answer.done():
                return answer.result()
            raise self.error(f"{method}: no answer within {self._timeout:g} s (engine.timeout)")
        except ray.exceptions.RayError as error:
            raise self.error(_problem(method, error)) from error
        finally:
            if not answer.done():
                answer.add_done_callback(_taken)
                if not self._lost.done():  # the work is given up
                    with contextlib.suppress(Exception):
                        ray.cancel(ref)


class RayPool:
    """Actors as the engine's replicas; implements ``Pool``. They end with it."""

    ours = True

    def __init__(self, setting: Config) -> None:
        """Connect to Ray.

        Raises:
            InputError: Ray is not installed, there is no such cluster, or it has too few GPUs.
            EngineError: Ray does not start here.
        """
        self.names = tuple(f"vLLM actor {index}" for index in range(setting.replicas))
        self._use = _use(setting)
        self.actors: list[Any] = []
        self._started: list[Any] = []
        self._timeout = setting.timeout
        self._lost: asyncio.Future[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        try:
            self._head = ray_connection.join(self._use)
        except ImportError as error:
            raise InputError(
                "engine.transport=ray: Ray is not installed here; run: pip install "
                "'whale-vllm[ray]'"
            ) from error
        except ray_connection.NotStarted as error:
            raise EngineError(f"{error}: {RESUME}") from error

    def place(self, gpus: float, given: Sequence[str]) -> None:
        """Place the actors, each on ``gpus`` GPUs of one machine, and start vLLM with ``given``."""
        import ray

        from whale_vllm.actor import VLLMActor

        remote = ray.remote(VLLMActor).options(num_gpus=gpus, max_concurrency=AT_ONCE)
        self.actors = [remote.remote() for _ in self.names]
        self._started = [actor.start.remote(given) for actor in self.actors]

    def connect(self) -> list[Replica]:
        """Return the replicas, watching over Ray's head in the running event loop."""
        self._lost = asyncio.get_running_loop().create_future()
        self._watch = asyncio.create_task(self._look(self._lost))
        return [
            RayReplica(name, actor, started, self._lost, self._timeout)
            for name, actor, started in zip(self.names, self.actors, self._started, strict=True)
        ]

    async def disconnect(self) -> None:
        """Watch no more."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        self._watch = self._lost = None

    async def check_alive(self) -> None:
        """Raise ``EngineError`` for an actor that did not start, or where Ray's head is gone,
        ``InputError`` where the settings are why."""
        await asyncio.to_thread(self._check_alive)

    def _check_alive(self) -> None:
        import ray

        if not ray_connection.answers(self._head):
            raise EngineError(f"Ray's head at {self._head} does not answer: {RESUME}")
        ready, _ = ray.wait(self._started, num_returns=len(self._started), timeout=0)
        for name, started in zip(self.names, self._started, strict=True):
            if started not in ready:
                continue
            try:
                ray.get(started)
            except ray.exceptions.RayError as error:
                raise _start_error(name, error) from error

    async def end(self, keep_logs: bool) -> None:
        """End the actors, and Ray where nobody else in this process uses it."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        import ray

        if ray_connection.answers(self._head):
            for actor in self.actors:
                with contextlib.suppress(Exception):
                    ray.kill(actor)
        self.actors = []
        ray_connection.leave(self._use)

    async def _look(self, lost: asyncio.Future[None]) -> None:
        while await asyncio.to_thread(ray_connection.answers, self._head):
            await asyncio.sleep(POLL_SECONDS)
        if not lost.done():
            lost.set_result(None)


def start(config: Config, model: Path, dtype: str, mode: str, longest: int) -> RayPool:
    """Start the configured number of actors for the folder ``model``; see ``RayPool``.

    ``mode`` is their ``--logprobs-mode``, ``longest`` the tokens of a context.
    """
    pool = RayPool(config)
    try:
        given = ["--model", str(model), *arguments(config, dtype, mode, longest)]
        if config.tensor_parallel > 1:  # within the actor, whatever Ray vLLM finds there
            given[2:2] = ["--distributed-executor-backend", "mp"]
        pool.place(config.ray.gpus * config.tensor_parallel, given)
    except BaseException:
        pool._end()
        raise
    return pool


def _use(config: Config) -> ray_connection.Use:
    """Return what the engine's actors want of Ray."""
    replicas, each, share = config.replicas, config.tensor_parallel, config.ray.gpus
    parallel = f" x engine.tensor_parallel={each}" if each > 1 else ""
    return ray_connection.Use(
        setting="engine.ray.address",
        address=config.ray.address,
        wish=f"engine.replicas={replicas}{parallel} at engine.ray.gpus={share:g}",
        gpus=replicas * each * share,
    )


def _has_started(started: Any) -> bool:
    import ray

    ready, _ = ray.wait([started], timeout=0)
    if not ready:
        return False
    try:
        ray.get(started)
    except ray.exceptions.RayError:
        return False
    return True


def _problem(method: str, error: Exception) -> str:
    """Return what an actor's error says, on one line."""
    import ray

    if isinstance(error, ray.exceptions.RayTaskError):
        return f"{method}: {ray_connection.reason(error)}"
    return f"{method}: it has ended ({ray_connection.reason(error)}): {RESUME}"


def _start_error(name: str, error: Exception) -> Exception:
    """Return why an actor did not start, as an error for people."""
    said = str(error)
    if CANNOT_SLEEP in said:
        return cannot_sleep()
    if isinstance(cause := getattr(error, "cause", None), ModuleNotFoundError):
        return InputError(f"{name}: {cause}: install 'whale-vllm[vllm]' on every machine")
    if "engine.arguments: " in said:
        return InputError(ray_connection.reason(error).partition("ValueError: ")[2])
    return EngineError(f"{name} {_problem('did not start', error)}")


def _taken(answer: asyncio.Future[Any]) -> None:
    """Take the result of a call that nobody waits for: else it is logged as lost."""
    if not answer.cancelled():
        answer.exception()
