"""A connection to Ray and the group of actors on it; what dies there becomes one clear error."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whale_core.errors import InputError, TrainerError
from whale_rsft.openrlhf.settings import OpenRLHF

if TYPE_CHECKING:
    from whale_rsft.openrlhf.adapter import Group

POLL_SECONDS = 2.0  # between looks at Ray's head while waiting
CONNECT_SECONDS = 5.0
SHUTDOWN_SECONDS = 10.0
REASON_LENGTH = 300
# What Ray reads from the environment when it starts. The actors are no background work: at Ray's
# niceness of 15 they would stand still beside any other. And Ray would end the whole program a
# minute after its head is gone; here that is found by looking, and is a clean stop.
ENVIRONMENT = {
    "RAY_worker_niceness": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",
}


class Session:
    """Actors of one trainer, kept warm. Its methods block: call them on a thread."""

    def __init__(self, settings: OpenRLHF) -> None:
        """Connect to Ray, starting it if it is ``local``, and start the actors.

        Raises:
            InputError: there is no such cluster, or it has too few GPUs.
            TrainerError: Ray does not start here.
        """
        import ray

        self._settings = settings
        self._group: Group | None = None
        self._started = not ray.is_initialized()  # a connection that is there is used
        if self._started:
            _connect(settings)
        self._head = ray.get_runtime_context().gcs_address
        try:
            self._check_room(ray.cluster_resources())
            from whale_rsft.openrlhf.actor import RSFTActor
            from whale_rsft.openrlhf.adapter import Group

            self._group = Group(RSFTActor, settings.nodes, settings.ranks, settings.gpus_per_rank)
        except BaseException:
            self._disconnect()
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
        import ray

        group, self._group = self._group, None
        if group is None:
            return
        if self._head_answers():
            for actor in group.actors:
                with contextlib.suppress(Exception):
                    ray.kill(actor)
        self._disconnect()

    def _disconnect(self) -> None:
        import ray

        if self._started or not self._head_answers():
            # Ray may wait for a head that is gone.
            closing = threading.Thread(target=ray.shutdown, daemon=True)
            closing.start()
            closing.join(SHUTDOWN_SECONDS)

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
            raise TrainerError(
                f"a trainer actor failed in {method} and no update was made ({_reason(error)}): "
                "resume the run; if memory ran out, with a smaller model_update.micro_tokens in a "
                "new one"
            ) from error
        except BaseException:
            self.close()
            raise

    def _check_head(self) -> None:
        if not self._head_answers():
            self.close()
            raise TrainerError(f"Ray's head at {self._head} does not answer: resume the run")

    def _head_answers(self) -> bool:
        host, _, port = self._head.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), CONNECT_SECONDS):
                return True
        except OSError:
            return False

    def _check_room(self, there: dict[str, float]) -> None:
        settings = self._settings
        wanted = settings.nodes * settings.ranks * settings.gpus_per_rank
        if there.get("GPU", 0.0) < wanted:
            raise InputError(
                f"model_update.openrlhf: {settings.nodes} x {settings.ranks} ranks want {wanted:g} "
                f"GPUs, the Ray cluster has {there.get('GPU', 0.0):g}: start more machines, or set "
                "fewer ranks (gpus_per_rank=0 trains on CPUs)"
            )


def _connect(settings: OpenRLHF) -> None:
    import ray

    address = settings.address
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, **local)
    except Exception as error:  # Ray raises many kinds, some of them plain
        if address == "local":
            raise TrainerError(
                f"Ray did not start here ({_reason(error)}): resume the run"
            ) from error
        raise InputError(
            f"model_update.openrlhf.address={address}: no Ray cluster there ({_reason(error)}): "
            "start one with `ray start --head`, or set address=local"
        ) from error


def _reason(error: BaseException) -> str:
    """Return the last line of what Ray says, which names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if lines else type(error).__name__
    if not isinstance(getattr(error, "cause", None), BaseException):  # an actor died: said first
        text = lines[0] if lines else text
    return text[:REASON_LENGTH]
