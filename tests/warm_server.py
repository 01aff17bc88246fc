"""Imports what a run needs, then forks for every program that ``warm_kit`` asks for (a script).

Argument: the descriptor of a socket (``SOCK_SEQPACKET``). An order is a JSON object with the
descriptors of the streams and of a socket, on which the process id and at last the exit status go
back.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import site
import socket
import sys
from typing import Any

LARGEST = 1 << 20  # bytes of an order
# What a run of the toy domain imports in any case.
IMPORTED = (
    *(
        "scipy.optimize",
        "scipy.stats",
        "safetensors.torch",
        "tokenizers",
        "torch._dynamo",
        "openai",
    ),
    *("transformers.models.llama.modeling_llama", "transformers.models.llama.configuration_llama"),
    *("transformers.models.auto.tokenization_auto", "transformers.convert_slow_tokenizer"),
    *("whale_core.api", "whale_core.cli.plan", "whale_core.cli.resume", "whale_core.cli.run"),
    *("whale_core.cli.session", "whale_core.cli.status", "whale_schedulers.fixed"),
    *("whale_metaharness.search", "whale_metaharness.mutation"),
    *("whale_rsft.rsft", "whale_rsft.torch_trainer", "whale_transformers.engine"),
)


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each order; return it in the new process, and None in this one at the end."""
    wake, woken = socket.socketpair()
    for each in (wake, woken):
        each.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            woken.recv(1 << 16)
            _report(running)
        if control not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, LARGEST, 4)
        if not data:
            return None
        answer = socket.socket(fileno=descriptors.pop())
        process = os.fork()
        if process == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (control, wake, woken, answer, *running.values()):
                end.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            order: dict[str, Any] = json.loads(data)
            return order
        for descriptor in descriptors:
            os.close(descriptor)
        running[process] = answer
        _send(answer, process)


def _report(running: dict[int, socket.socket]) -> None:
    """Say of each process that has ended how it did, as ``Popen.returncode`` would."""
    for process in list(running):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            with running.pop(process) as answer:
                _send(answer, os.waitstatus_to_exitcode(status))


def _send(answer: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # whoever asked may have ended
        answer.send(number.to_bytes(8, "little", signed=True))


def become(order: dict[str, Any]) -> None:
    """Make this process what a new interpreter would be with these arguments."""
    if order["new_session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv[:] = order["argv"]
    sys.path[0] = order["path"]
    given = order["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in given if path and path not in sys.path]
    if order["site"]:
        site.addsitedir(order["site"])  # what was installed there since
    importlib.invalidate_caches()


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # leaves the pages that are shared with the forked processes alone
    given = serve(socket.socket(fileno=int(sys.argv[1])))
    if given is not None:
        become(given)
        exec(compile(given["code"], "<string>", "exec"), {"__name__": "__main__"})
