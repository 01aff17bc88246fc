"""Keeps the processes of one jail together within this machine's memory.

Each episode has a limit of its own (``Limits.memory_mb``), but a block of episodes that all go up
to theirs could take the machine down. So a jail may never hold more than it leaves free: while it
does, its largest process is killed. That is a backstop, not a measure: a harness that meets it has
filled a machine's memory with all its episodes together, and the one that is killed fails with
``memory``. The kernel's own last resort is pointed at the jail, too (``offer_first``).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from whale_core.cgroup import memory_left

SPARED_BYTES = 32 << 20  # a process that holds less is never to blame
PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


def offer_first(zygote: int) -> None:
    """Have the kernel, if it runs out of memory, kill a child of ``zygote`` before anything else.

    Where the kernel does not allow that, ``enforce`` alone must do.
    """
    try:
        (PROC / str(zygote) / "oom_score_adj").write_text("1000")
    except OSError:
        return


def enforce(zygote: int) -> None:
    """Kill the largest children of ``zygote`` while they hold more memory than is left free."""
    shared = _held(zygote)  # a child's count includes the pages that it has from the zygote
    sizes = {child: max(0, _held(child) - shared) for child in _children(zygote)}
    used = sum(sizes.values())
    if used <= SPARED_BYTES:
        return
    free = _free()
    for child in sorted(sizes, key=lambda child: (-sizes[child], child)):
        if used <= free or sizes[child] <= SPARED_BYTES:
            return
        _kill(child, zygote)
        used -= sizes[child]
        free += sizes[child]


def _children(parent: int) -> list[int]:
    """Return the process ids of a single-threaded process's children."""
    try:
        return [
            int(child) for child in (PROC / f"{parent}/task/{parent}/children").read_text().split()
        ]
    except OSError:
        return []  # it has ended


def _held(process: int) -> int:
    """Return how many bytes of memory a process holds that are not a file's."""
    lines = _fields(PROC / str(process) / "status")
    return sum(lines.get(name, 0) for name in ("RssAnon", "RssShmem", "VmSwap")) << 10


def _free() -> int:
    """Return how many bytes can still be had, on this machine and in this process's cgroups."""
    free = _fields(PROC / "meminfo").get("MemAvailable", 0) << 10
    left = memory_left(CGROUP, PROC / "self/cgroup")
    return free if left is None else min(free, max(0, left))


def _kill(child: int, zygote: int) -> None:
    """Kill ``child`` if it still is a child of ``zygote`` (its id may have been given away)."""
    try:
        handle = os.pidfd_open(child)
    except OSError:
        return
    try:
        if child in _children(zygote):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def _fields(path: Path) -> dict[str, int]:
    """Return the numbers of a file of ``name: number`` lines; of one that is gone, none."""
    try:
        text = path.read_text()
    except OSError:
        return {}
    parts = (line.split() for line in text.splitlines())
    return {
        part[0].rstrip(":"): int(part[1]) for part in parts if len(part) > 1 and part[1].isdigit()
    }
