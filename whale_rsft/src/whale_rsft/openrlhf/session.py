"""A connection to Ray and the group of actors on it; what dies there becomes one clear error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whale_core import ray_connection
from whale_core.errors import TrainerError
from whale_rsft.openrlhf.settings import OpenRLHF

if TYPE_CHECKING:
    from whale_rsft.openrlhf.group import Group

POLL_SECONDS = 2.0  # between looks at Ray's head while waiting


class Session:
    """Actors of one trainer, kept warm. Its methods block: call them on a thread."""

    def __init__(self, settings: OpenRLHF, use: ray_connection.Use) -> None:
        """Connect to Ray, starting it if it is ``local``, and start the actors. ``use`` is
        ``use_of(settings)``, planned or not.

        Raises:
            InputError: there is no such cluster, or it has too few GPUs.
            TrainerError: Ray does not start here.
        """
        self._use = use
        self._group: Group | None = None
        try:
            self._head = ray_connection.join(use)
        except ray_connection.NotStarted as error:
            raise TrainerError(f"{error}: resume the run") from error
        try:
            from whale_rsft.openrlhf.actor import RSFTActor
            from whale_rsft.openrlhf.group import Group

            ranks = settings.nodes * settings.ranks
            self._group = Group(RSFTActor, ranks, settings.gpus_per_rank)
        except BaseException:
            ray_connection.leave(use)
            raise

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
        """End the actors, and Ray if it was started here. Idempotent."""
        group, self._group = self._group, None
        if group is None:
            return
        if ray_connection.answers(self._head):
            group.close()
        ray_connection.leave(self._use)

    def _open_group(self) -> Group:
        if self._group is None:
            raise TrainerError("the trainer's actors are gone: resume the run")
        # Calls reach actors without the head, but nothing that then fails could be mended.
        self._check_head()
        return self._group

    def _results(self, refs: list[Any], method: str) -> list[Any]:
        import ray

        waiting = list(refs)
        try:
            while waiting:
                ready, waiting = ray.wait(waiting, timeout=POLL_SECONDS)
                ray.get(ready)  # raises what went wrong there; the others would wait for that rank
                if not ready:
                    self._check_head()
            return list(ray.get(refs))
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
    )
