"""The warm process inside a jail that forks one process per episode.

It never touches harness code. It takes fixed-size records from the trusted side over a control
socket, and reports with records what became of its children.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import select
import signal
import socket
import struct

from whale_harness._jail import confine, episode, syscalls

ORDER = struct.Struct("<II")  # what to do, child
FORK, KILL = 1, 2
REPORT = struct.Struct("<IiI")  # child (0: the zygote is ready), wait status, CPU milliseconds
NO_PROCESS = -1  # in place of a wait status: the process could not be started


def main(control_descriptor: int, cpu_seconds: int, memory_bytes: int) -> None:
    """Serve fork and kill orders until the trusted side closes the control socket."""
    confine.die_with_parent()
    confine.drop_capabilities()
    os.environ.clear()
    program = syscalls.filter_program(os.uname().machine)
    resource.setrlimit(resource.RLIMIT_NOFILE, (confine.DESCRIPTORS, confine.DESCRIPTORS))
    control = socket.socket(fileno=os.dup(control_descriptor))  # a low number, to be closed in bulk
    os.close(control_descriptor)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    asyncio.new_event_loop().close()  # what it imports and caches, no child need do again
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
                episode.main(descriptors[0], cpu_seconds, memory_bytes, program)
            children[process] = child
        os.close(descriptors[0])
    for process in children:
        os.kill(process, signal.SIGKILL)


def _report_exits(control: socket.socket, children: dict[int, int]) -> None:
    """Reap ended children and report each one's wait status and CPU time."""
    while children:
        process, status, usage = os.wait4(-1, os.WNOHANG)
        if process == 0:
            return
        milliseconds = int(1000 * (usage.ru_utime + usage.ru_stime))
        control.sendall(REPORT.pack(children.pop(process), status, milliseconds))
