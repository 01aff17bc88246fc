"""The connection to Ray that the parts of a process share: the engine's actors, the trainer's.

Whoever comes first connects, and the last one to leave disconnects. A connection that was there
before any of them is used and left alone. Ray itself is imported only when it is used; the
functions block for seconds: call them on a thread.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import Any

from whale_core.errors import InputError

CONNECT_SECONDS = 5.0
SHUTDOWN_SECONDS = 10.0
REASON_LENGTH = 300
# What Ray reads from the environment when it starts. The actors are no background work: at Ray's
# niceness of 15 they would stand still beside any other. And Ray would end the whole program a
# minute after its head is gone; here that is found by looking (``answers``), and is a clean stop.
ENVIRONMENT = {
    "RAY_worker_niceness": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",
}


class NotStarted(Exception):
    """Ray did not start on this machine, and why."""


_lock = threading.Lock()
_users = 0
_ours = False  # the connection was made here
_closed = threading.Event()  # no longer needed


def join(address: str, setting: str) -> str:
    """Use the process's connection to Ray, making it if there is none; return its head's address.

    ``address`` is ``local`` (start Ray on this machine), ``auto`` (the running one) or a head's;
    ``setting`` is where it was configured. Whoever joins leaves (``leave``).

    Raises:
        InputError: there is no such cluster.
        NotStarted: Ray does not start here.
    """
    global _users, _ours
    import ray

    with _lock:
        if not ray.is_initialized():
            _connect(address, setting)
            _ours = True
        _users += 1
        return str(ray.get_runtime_context().gcs_address)


def leave(head: str) -> None:
    """Stop using the connection. The last one out closes it, if it was made by ``join``; one whose
    ``head`` is gone is closed by the first."""
    global _users, _ours
    import ray

    with _lock:
        _users = max(0, _users - 1)
        if ray.is_initialized() and ((_users == 0 and _ours) or not answers(head)):
            # Ray may wait for a head that is gone.
            closing = threading.Thread(target=ray.shutdown, daemon=True)
            closing.start()
            closing.join(SHUTDOWN_SECONDS)
            _ours = False
            _closed.set()


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
    text = lines[-1] if lines else type(error).__name__
    if not isinstance(getattr(error, "cause", None), BaseException):  # an actor died: said first
        text = lines[0] if lines else text
    return text[:REASON_LENGTH]


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
