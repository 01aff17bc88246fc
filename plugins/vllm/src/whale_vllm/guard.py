"""Runs a server that must not outlive the run: ``python guard.py COMMAND …``. Only stdlib.

Its standard input is a pipe from the run. When that closes, however the run ended, the server's
whole process group is ended. vLLM computes in child processes, which would keep a device otherwise.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

GRACE_SECONDS = 10.0  # for the server to end by itself


def main(command: list[str]) -> int:
    """Run ``command`` until it ends or standard input closes; return its exit code."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, lambda *_: _end(server.pid))
    threading.Thread(target=_watch, args=(server.pid,), daemon=True).start()
    code = server.wait()
    _kill(server.pid, signal.SIGKILL)  # what the server itself may have left
    return code if code >= 0 else 128 - code  # as a shell tells of a signal


def _watch(group: int) -> None:
    while os.read(0, 4096):
        pass
    _end(group)


def _end(group: int) -> None:
    """Ask a process group to end, then end it."""
    _kill(group, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    _kill(group, signal.SIGKILL)


def _kill(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
