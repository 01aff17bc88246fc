"""The connection to Ray that the parts of a process share: the engine's actors, the trainer's.

Whoever comes first connects, and the last one to leave disconnects. A connection that was there
before any of them is used and left alone. What all of them want is known before the first connects
(``plan``): they must agree on the cluster, and it must have CPUs and GPUs for all. Ray itself is
imported only when it is used; ``join``, ``leave`` and ``answers`` block for seconds: call them on a
thread.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from whale_core.errors import InputError

CONNECT_SECONDS = 5.0
SHUTDOWN_SECONDS = 10.0
REASON_LENGTH = 300
ROUNDING = 1e-6  # of a sum of shares
# What Ray reads from the environment when it starts. The actors are no background work: at Ray's
# niceness of 15 they would stand still beside any other. And Ray would end the whole program a
# minute after its head is gone; here that is found by looking (``answers``), and is a clean stop.
ENVIRONMENT = {
    "RAY_worker_niceness": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",
}


class NotStarted(Exception):
    """Ray did not start on this machine, and why."""


@frozen(eq=False)
class Use:
    """What one part of a process wants of Ray."""

    setting: str
    """Where its address was set."""
    address: str
    """``local`` (start Ray on this machine), ``auto`` (the running one) or a head's."""
    wish: str
    """The settings that make ``gpus`` and ``cpus``."""
    gpus: float
    """GPUs that its actors reserve."""
    cpus: float = 0.0
    """CPUs that they reserve."""


_lock = threading.Lock()
_planned: list[Use] = []
_joined: dict[Use, str] = {}  # with the address of Ray's head
_ours = False  # the connection was made here
_closed = threading.Event()  # no longer needed


def plan(use: Use) -> None:
    """Say what will be wanted, before anything is started, until it is left (``leave``).

    Raises:
        InputError: another part wants another cluster.
    """
    with _lock:
        _plan(use)


def join(use: Use) -> str:
    """Use the process's connection to Ray, making it if there is none; return its head's address.

    Whoever joins leaves (``leave``).

    Raises:
        InputError: there is no such cluster, another part wants another one, or it has too few GPUs
            or CPUs for all parts that have planned or joined.
        NotStarted: Ray does not start here.
    """
    global _ours
    import ray

    with _lock:
        _plan(use)
        try:
            if not ray.is_initialized():
                _connect(use.address, use.setting)
                _ours = True
            _joined[use] = str(ray.get_runtime_context().gcs_address)
            _check_room(ray.cluster_resources())
        except BaseException:
            _leave(use)
            raise
        return _joined[use]


def leave(use: Use) -> None:
    """Want nothing any more. Idempotent.

    The last one out closes the connection, if it was made by ``join``; one whose head is gone is
    closed by the first.
    """
    with _lock:
        _leave(use)


def answers(head: str) -> bool:
    """Say whether something listens at the address of Ray's head."""
    host, _, port = head.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), CONNECT_SECONDS):
            return True
    except (OSError, ValueError, OverflowError):  # no port, none that there is
        return False


def reason(error: BaseException) -> str:
    """Return the one line of Ray's report that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # What a method or a constructor raised is said last, how an actor died otherwise first.
    raised = isinstance(getattr(error, "cause", None), BaseException)
    raised = raised or getattr(error, "actor_init_failed", False) is True
    return lines[-1 if raised else 0][:REASON_LENGTH]


def _plan(use: Use) -> None:
    if use in _planned:
        return
    ray = sys.modules.get("ray")
    given = ray is not None and ray.is_initialized() and not _ours  # whatever the addresses say
    for other in [] if given else _planned:
        if other.address != use.address:
            raise InputError(
                f"{other.setting}={other.address}, but {use.setting}={use.address}: they share one "
                "connection to Ray: set both alike"
            )
    _planned.append(use)


def _check_room(there: Mapping[str, float]) -> None:
    """Refuse what would wait without end: Ray places actors whenever there is room."""
    for name, shares in (
        ("GPU", {use: use.gpus for use in _planned}),
        ("CPU", {use: use.cpus for use in _planned}),
    ):
        wanted, has = sum(shares.values()), there.get(name, 0.0)
        if wanted > has + ROUNDING:
            wishes = " and ".join(use.wish for use, share in shares.items() if share)
            raise InputError(
                f"{wishes} want {wanted:g} {name}s, the Ray cluster has {has:g}: start more "
                "machines, or set fewer or smaller shares (0 computes on CPUs)"
            )


def _leave(use: Use) -> None:
    global _ours
    if use in _planned:
        _planned.remove(use)
    head = _joined.pop(use, None)
    if head is None:
        return
    import ray

    if ray.is_initialized() and ((not _joined and _ours) or not answers(head)):
        # Ray may wait for a head that is gone.
        closing = threading.Thread(target=ray.shutdown, daemon=True)
        closing.start()
        closing.join(SHUTDOWN_SECONDS)
        _joined.clear()
        _ours = False
        _closed.set()


def _connect(address: str, setting: str) -> None:
    if address not in ("local", "auto") and not answers(address):  # Ray would try for minutes
        raise _no_cluster(address, setting, "nothing listens there, as HOST:PORT")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    _closed.clear()
    done = threading.Event()
    failed: list[Exception] = []

    def hold() -> None:
        """Make the connection, and stay: what Ray starts ends with the *thread* that started it, as
        one of an event loop's does with the loop (PR_SET_PDEATHSIG)."""
        import ray

        local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
        except Exception as error:  # Ray raises many kinds, some of them plain
            failed.append(error)
        done.set()
        if not failed:
            _closed.wait()

    threading.Thread(target=hold, name="ray", daemon=True).start()
    done.wait()
    if not failed:
        return
    if address == "local":
        raise NotStarted(f"Ray did not start here ({reason(failed[0])})") from failed[0]
    raise _no_cluster(address, setting, reason(failed[0])) from failed[0]


def _no_cluster(address: str, setting: str, why: str) -> InputError:
    return InputError(
        f"{setting}={address}: no Ray cluster there ({why}): start one with `ray start --head`, or "
        "set address=local"
    )
