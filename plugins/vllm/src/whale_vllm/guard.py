"""Runs a server that must not outlive the run: ``python guard.py COMMAND …``. Only stdlib.

Its standard input is a pipe from the run. When that closes, however the run ended, the server's
whole process group is ended. vLLM computes in child processes, which would keep a device otherwise.
``python guard.py --watch PID:START …`` ends processes that run already, in the same way.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

GRACE_SECONDS = 10.0  # for the server to end by itself
WATCH = "--watch"


_watchers: list[subprocess.Popen[bytes]] = []


def main(command: list[str]) -> int:
    """Run ``command`` until it ends or standard input closes; return its exit code."""
    if command[0] == WATCH:
        return _outlive(command[1:])
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, lambda *_: _end(server.pid))
    threading.Thread(target=_watch, args=(server.pid,), daemon=True).start()
    code = server.wait()
    _kill(server.pid, signal.SIGKILL)  # what the server itself may have left
    return code if code >= 0 else 128 - code  # as a shell tells of a signal


def watch(processes: Sequence[int]) -> None:
    """Have ``processes`` ended when this process is gone, however it ends. Another process that has
    got the number of one that ended is left alone."""
    known = [f"{process}:{_start_of(process)}" for process in processes]
    command = [sys.executable, "-I", "-S", __file__, WATCH, *known]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    watcher.wait()
    _watchers.append(watcher)  # its pipe stays open as long as this process lives


def _outlive(known: Sequence[str]) -> int:
    if os.fork():
        return 0  # no child of the process that it watches: Ray ends those first
    _wait_for_end()
    for process, _, start in (each.partition(":") for each in known):
        if _start_of(process) != start:
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(int(process), signal.SIGKILL)
    return 0


def _start_of(process: int | str) -> str:
    """Return when a process started, in ticks since the machine did; "" if there is none, and where
    the system does not tell (it has no /proc)."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]  # 22nd field; the name is the 2nd
    except (OSError, IndexError):
        return ""


def _watch(group: int) -> None:
    _wait_for_end()
    _end(group)


def _wait_for_end() -> None:
    while os.read(0, 4096):
        pass


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
