"""A connection to Ray and the group of actors on it; what dies there becomes one clear error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whale_core import ray_connection
from whale_core.errors import InputError, TrainerError
from whale_core.waiting import Progress
from whale_rsft.openrlhf.settings import OpenRLHF

if TYPE_CHECKING:
    from whale_rsft.openrlhf.group import Group

POLL_SECONDS = 2.0  # between looks at Ray's head while waiting
START_SECONDS = 600.0  # that actors may wait for room, and take to start


class Session:
    """Actors of one trainer, kept warm. Its methods block: call them on a thread."""

    def __init__(self, settings: OpenRLHF, use: ray_connection.Use) -> None:
        """Start nothing yet. ``use`` is ``use_of(settings)``, planned or not."""
        self._settings = settings
        self._use = use
        self._head = ""
        self._group: Group | None = None
        self._closed = False

    def start(self) -> None:
        """Connect to Ray, starting it if it is ``local``, and wait until the actors have started.
        Where this fails ``close`` is still to be called.

        Raises:
            InputError: there is no such cluster, it has too few CPUs or GPUs, or none are free
                within ``START_SECONDS``; a package is missing.
            TrainerError: Ray or an actor does not start, or ``close`` was called meanwhile.
        """
        try:
            self._head = ray_connection.join(self._use)
            from whale_rsft.openrlhf.actor import RSFTActor
            from whale_rsft.openrlhf.group import Group
        except ray_connection.NotStarted as error:
            raise TrainerError(f"{error}: resume the run") from error
        except ImportError as error:
            raise _not_installed(str(error)) from error
        settings = self._settings
        group = Group(RSFTActor, settings.nodes * settings.ranks, settings.gpus_per_rank)
        self._group = group
        if self._closed:  # on another thread
            self.close()
            raise TrainerError("the trainer was closed while its actors started")
        self._wait_for(group)

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call ``method`` on every actor; return their results, by rank.

        Raises:
            TrainerError: an actor raised an error or died, or Ray's head does not answer. The
                session is closed then.
        """
        return self._results(self._open_group().call(method, *arguments), method)

    def call_each(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """Call ``method`` on every actor with an argument of its own. Raises as ``call`` does."""
        return self._results(self._open_group().call_each(method, arguments), method)

    def close(self) -> None:
        """End the actors, and Ray if it was started here. Idempotent, and from any thread."""
        self._closed = True
        group, self._group = self._group, None
        if group is not None and ray_connection.answers(self._head):
            group.close()
        ray_connection.leave(self._use)

    def _wait_for(self, group: Group) -> None:
        import ray

        progress = Progress(f"waiting for {len(group)} actor(s) of the trainer")

        def check_time() -> None:
            if progress.tick() > START_SECONDS:
                raise self._late(group)

        try:
            self._gather(group.call("alive"), check_time)
        except ray.exceptions.RayError as error:
            why = ray_connection.reason(error)
            if why.startswith(("ModuleNotFoundError", "ImportError")):
                raise _not_installed(why) from error
            raise TrainerError(f"a trainer actor did not start ({why}): resume the run") from error

    def _late(self, group: Group) -> InputError | TrainerError:
        """Return the error that says what ``group`` still waits for."""
        import ray

        if group.placed():
            return TrainerError(
                f"the trainer's actors have not started within {START_SECONDS:g} s: resume the run"
            )
        use, free = self._use, ray.available_resources()
        return InputError(
            f"{use.wish}: the Ray cluster has had no room for these actors within "
            f"{START_SECONDS:g} s: they want {use.cpus:g} CPUs and {use.gpus:g} GPUs, "
            f"{free.get('CPU', 0.0):g} and {free.get('GPU', 0.0):g} are free, on all machines "
            "together: end what holds the others, or set fewer or smaller shares"
        )

    def _open_group(self) -> Group:
        if self._group is None:
            raise TrainerError("the trainer's actors are gone: resume the run")
        # Calls reach actors without the head, but nothing that then fails could be mended.
        self._check_head()
        return self._group

    def _results(self, refs: list[Any], method: str) -> list[Any]:
        import ray

        try:
            return self._gather(refs)
        except ray.exceptions.RayError as error:
            self.close()
            why = ray_connection.reason(error)
            raise TrainerError(
                f"a trainer actor failed in {method} and no update was made ({why}): "
                "resume the run; if memory ran out, with a smaller model_update.micro_tokens in a "
                "new one"
            ) from error
        except BaseException:
            self.close()
            raise

    def _gather(self, refs: list[Any], waited: Callable[[], None] = lambda: None) -> list[Any]:
        """Return the results of ``refs``. After every ``POLL_SECONDS`` without one look at Ray's
        head and call ``waited``."""
        import ray

        waiting = list(refs)
        while waiting:
            ready, waiting = ray.wait(waiting, timeout=POLL_SECONDS)
            ray.get(ready)  # raises what went wrong there; the others would wait for that rank
            if not ready:
                self._check_head()
                waited()
        return list(ray.get(refs))

    def _check_head(self) -> None:
        if not ray_connection.answers(self._head):
            self.close()
            raise TrainerError(f"Ray's head at {self._head} does not answer: resume the run")


def use_of(settings: OpenRLHF) -> ray_connection.Use:
    """Return what the trainer's actors want of Ray."""
    nodes, ranks, share = settings.nodes, settings.ranks, settings.gpus_per_rank
    return ray_connection.Use(
        setting="model_update.openrlhf.address",
        address=settings.address,
        wish=f"model_update.openrlhf.nodes={nodes} x ranks={ranks} at gpus_per_rank={share:g}",
        gpus=nodes * ranks * share,
        cpus=nodes * ranks * share,
    )


def _not_installed(why: str) -> InputError:
    return InputError(
        f"the trainer openrlhf cannot be imported ({why}): install 'whale-rsft[openrlhf]' on every "
        "machine of the Ray cluster"
    )
