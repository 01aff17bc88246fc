"""The warm process inside a jail that forks one process per episode.

It never touches harness code. It takes fixed-size records from the trusted side over a control
socket, and reports with records what became of its children.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import resource
import select
import signal
import socket
import struct
import types

from whale_harness._jail import confine, episode, syscalls

ORDER = struct.Struct("<II")  # what to do, child
FORK, KILL = 1, 2
REPORT = struct.Struct("<IiI")  # child (0: the zygote is ready), wait status, CPU milliseconds
NO_PROCESS = -1  # in place of a wait status: the process could not be started
MEAN_SKIPPED = 200  # process ids


def main(control_descriptor: int, cpu_seconds: int, memory_bytes: int) -> None:
    """Serve fork and kill orders until the trusted side closes the control socket."""
    confine.die_with_parent()
    confine.drop_capabilities()
    os.environ.clear()
    program = syscalls.filter_program(os.uname().machine)
    resource.setrlimit(resource.RLIMIT_NOFILE, (confine.DESCRIPTORS, confine.DESCRIPTORS))
    descriptor = _serve(control_descriptor)
    # In a child, what the zygote knew of its siblings went with the frame of _serve.
    if descriptor is not None:
        episode.main(descriptor, cpu_seconds, memory_bytes, program)


def _serve(control_descriptor: int) -> int | None:
    """Serve orders; return None at the end, and in each forked child its socket's descriptor."""
    control = socket.socket(fileno=os.dup(control_descriptor))  # a low number, to be closed in bulk
    os.close(control_descriptor)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.set_wakeup_fd(wake)
    asyncio.new_event_loop().close()  # what it imports and caches, no child need do again
    _use_up_process_ids()
    gc.collect()
    gc.freeze()  # children do not copy pages just because their collector looked at them
    children: dict[int, int] = {}  # process id -> child
    poll = select.poll()
    poll.register(control.fileno(), select.POLLIN)
    poll.register(woken, select.POLLIN)
    control.sendall(REPORT.pack(0, 0, 0))
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if woken in ready:
            os.read(woken, 4096)
            _report_exits(control, children)
        if control.fileno() not in ready:
            continue
        order, descriptors, _, _ = socket.recv_fds(control, ORDER.size, 1)
        if not order:
            break
        what, child = ORDER.unpack(order)
        if what == KILL:
            for process in [process for process, known in children.items() if known == child]:
                os.kill(process, signal.SIGKILL)
            continue
        try:
            process = os.fork()
        except OSError:
            control.sendall(REPORT.pack(child, NO_PROCESS, 0))
        else:
            if process == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.detach()
                return descriptors[0]
            children[process] = child
        os.close(descriptors[0])
    for process in children:
        os.kill(process, signal.SIGKILL)
    return None


def _ignore(number: int, frame: types.FrameType | None) -> None:
    """Let a signal do nothing but wake the poll."""


def _use_up_process_ids() -> None:
    """Let this jail's process ids begin at a random place.

    A process finds its own id in its memory, and ids count up. So a small one would tell a harness
    that few episodes came before it: a smoke test or a gate, say. A geometrically distributed
    beginning leaves every id possible for every episode. An attempt to start no program is the
    cheapest way to use one up.
    """
    for _ in range(int(random.SystemRandom().expovariate(1 / MEAN_SKIPPED))):
        with contextlib.suppress(OSError):
            os.posix_spawn("", ["none"], {})


def _report_exits(control: socket.socket, children: dict[int, int]) -> None:
    """Reap ended children and report each one's wait status and CPU time."""
    while children:
        process, status, usage = os.wait4(-1, os.WNOHANG)
        if process == 0:
            return
        milliseconds = int(1000 * (usage.ru_utime + usage.ru_stime))
        control.sendall(REPORT.pack(children.pop(process), status, milliseconds))
