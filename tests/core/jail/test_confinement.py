"""What harness code tries and does not get."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whale_core.jail import Ended, Finished, open_jail
from whale_core.roles import Limits

Run = Callable[..., Finished | Ended]


ATTEMPTS = [
    "import socket; socket.socket()",
    "import socket; socket.socketpair()",
    "import os; os.fork()",
    "import os; os.execv('/bin/sh', ['sh'])",
    "import subprocess; subprocess.run(['true'])",
    "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "import os; os.kill(os.getppid(), 0)",
    "import os; os.kill(os.getpid(), 9)",
    "import os; os.memfd_create('x')",
    "import os; os.nice(1)",
    "import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 5)",
    "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
    "import fcntl; fcntl.flock(0, fcntl.LOCK_EX)",
    "import fcntl; fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)",
    "import os; os.mkdir('/tmp/x')",
    "open('/tmp/x', 'w')",
    "import os; os.open('/tmp', os.O_RDWR | 0o20000000)",
    "import os; os.chdir('/tmp')",
    "import os; os.unlink(json.__file__)",
    "import os; os.chmod(json.__file__, 0o777)",
    "import os; os.setuid(0)",
    "import os; os.unshare(0x10000000) if hasattr(os, 'unshare') else os.fork()",
]


def test_forbidden_system_calls_are_refused_and_end_the_episode(
    kind: str, body_of: Callable[[str], str], player: Callable[..., Any]
) -> None:
    source = "import json, os\n" + body_of(
        'exec(task, {"json": json, "os": os})\nreturn "it worked"'
    )

    async def main() -> list[Any]:
        async with open_jail(source, Limits(), kind) as jail:
            return [await player(jail, attempt) for attempt in ATTEMPTS]

    for attempt, outcome in zip(ATTEMPTS, asyncio.run(main()), strict=True):
        assert isinstance(outcome, Ended), attempt
        assert outcome.reason.startswith("error: PermissionError"), attempt
        assert not outcome.infrastructure


def test_threads_cannot_be_started(run: Run) -> None:
    outcome = run("import threading\nthreading.Thread(target=print).start()")
    assert outcome == Ended("error: RuntimeError: can't start new thread")


RAW = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
refused = []
for number in {numbers}:
    ctypes.set_errno(0)
    result = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    refused.append(result == -1 and ctypes.get_errno() == 1)
return str(refused)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="raw numbers of x86_64")
def test_raw_system_calls_are_refused(run: Run) -> None:
    # clone, fork, vfork, execve, tgkill, ptrace, process_vm_readv, shmget, msgget, semget, mount,
    # setns, bpf, perf_event_open, userfaultfd, add_key, io_uring_setup, clone3, execveat, prctl,
    # inotify_init1, openat2, sendmsg, and fork by its x32 number
    numbers = [56, 57, 58, 59, 234, 101, 310, 29, 68, 64, 165, 308, 321, 298, 323, 248, 425, 435]
    numbers += [322, 157, 294, 437, 46, 0x40000000 + 57]
    assert run(RAW.format(numbers=numbers)) == Finished(str([True] * len(numbers)))


def test_environment_is_empty_and_only_its_own_descriptors_are_open(run: Run) -> None:
    body = """
import os, json
opened = []
for number in range(64):
    try:
        os.fstat(number)
        opened.append(number)
    except OSError:
        pass
return json.dumps([dict(os.environ), opened])
"""
    outcome = run(body)
    assert isinstance(outcome, Finished)
    environment, opened = json.loads(outcome.answer)
    assert environment == {}
    assert opened[:4] == [0, 1, 2, 3]
    assert len(opened) <= 7  # and the event loop's own three


def test_nothing_of_the_machine_is_visible_under_bubblewrap(
    kind: str, run: Run, tmp_path: Path
) -> None:
    if kind != "bubblewrap":
        pytest.skip("the process kind does not hide files (PROCESS_JAIL_GAPS)")
    secret = tmp_path / "secret"
    secret.write_text("reference")
    body = """
import os, json, sys
def there(path):
    return os.path.lexists(path)
found = [path for path in task["paths"] if there(path)]
stdlib = os.path.dirname(os.__file__)
packages = [
    name
    for folder in (stdlib, os.path.dirname(stdlib), "/usr/lib", "/usr/lib/python3")
    for path in (folder, folder + "/site-packages", folder + "/dist-packages")
    if there(path)
    for name in os.listdir(path)
    if name.startswith(("numpy", "chess", "torch", "whale_core"))
]
return json.dumps([found, os.listdir("/tmp"), packages, os.getuid(), os.uname().nodename])
"""
    here = str(Path(__file__).resolve().parents[3])
    paths = [str(secret), here, "/proc", "/sys", "/dev", "/etc/passwd", "/home", "/var", "/run"]
    outcome = run(body, {"paths": paths})
    assert isinstance(outcome, Finished), outcome
    assert json.loads(outcome.answer) == [[], [], [], 65534, "jail"]


def test_the_home_folder_shows_nothing_but_the_way_to_the_interpreter(kind: str, run: Run) -> None:
    if kind != "bubblewrap":
        pytest.skip("the process kind does not hide files (PROCESS_JAIL_GAPS)")
    body = """
import os, sys
files = []
for folder, _, names in os.walk(task):
    inside = folder.startswith(sys.base_prefix)
    files += [] if inside else names
return str([name for name in files if not name.startswith("python")])
"""
    assert run(body, str(Path.home())) == Finished("[]")


def test_a_harness_cannot_reach_the_zygote_or_its_siblings(
    kind: str, body_of: Callable[[str], str], player: Callable[..., Any]
) -> None:
    source = body_of(
        """
import os, signal
for process in range(1, 400):
    try:
        os.kill(process, signal.SIGKILL)
    except PermissionError:
        continue
    return "killed something"
return "nobody"
"""
    )

    async def main() -> list[Any]:
        async with open_jail(source, Limits(), kind) as jail:
            return await asyncio.gather(*(player(jail) for _ in range(5)))

    assert asyncio.run(main()) == [Finished("nobody")] * 5
