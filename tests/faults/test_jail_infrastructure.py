"""What is the jail's own fault, or the machine's: memory of all episodes together, broken jails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from corpus_kit import QUICK, base, descendants, executor, left_over, play, toy

from whale_core.jail import ChatRequest, Jail, JailError, memory, open_jail, probe
from whale_core.jail.zygote import Zygote
from whale_core.keys import content_hash
from whale_core.records import Json, Outcome
from whale_core.roles import Harness
from whale_harness._jail import zygote

KIND = probe("auto")
BASE = base(toy(QUICK))
HOLDER_SOURCE = """from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        import time

        held = b"x" * (60 << 20)
        time.sleep(1.5)
        reply = await model.chat([{"role": "user", "content": f"Letters: {task['letters']}"}])
        await env.call("say", letter=reply.text)
        return str(len(held))
"""
HOLDER = Harness(content_hash(HOLDER_SOURCE), HOLDER_SOURCE, "holder")


def test_a_jail_that_holds_more_than_is_left_free_loses_its_largest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = executor(evolve(QUICK, memory_mb=256), KIND)
    calm = play(runner, {HOLDER: 6, BASE: 6})
    assert {t.outcome for t in calm["holder"]} == {Outcome.PASS}
    monkeypatch.setattr(memory, "_free", lambda: 200 << 20)
    made = play(runner, {HOLDER: 6, BASE: 6})
    assert made["base"] == calm["base"]
    killed = [t for t in made["holder"] if t.outcome is Outcome.FAIL]
    assert 2 <= len(killed) <= 4  # of 6 times 60 MB, until what is left fits
    assert {t.reason for t in killed} == {"memory"}
    assert not left_over()


def test_jails_given_up_while_they_start_leave_nothing() -> None:
    marker = 7919  # as CPU limit: no other jail on this machine has it

    async def give_up() -> None:
        moments = random.Random(5)
        for _ in range(300):
            starting = asyncio.create_task(Zygote.start(KIND, marker, 1 << 28))
            await asyncio.sleep(0)  # the program is started now
            await asyncio.sleep(0.004 * moments.random())
            starting.cancel()
            await asyncio.wait({starting})

    asyncio.run(give_up())
    assert not marked(marker)


STARTS = """
import asyncio, os, sys
from whale_core.jail.zygote import Zygote

kind, marker = sys.argv[1], int(sys.argv[2])
while sys.stdin.readline():
    controller = os.fork()
    if controller == 0:
        asyncio.run(Zygote.start(kind, marker, 1 << 28))
    print(controller, flush=True)
    os.waitpid(controller, 0)
"""


def test_controllers_killed_while_a_jail_starts_leave_nothing() -> None:
    marker = 7907
    command = [sys.executable, "-c", STARTS, KIND, str(marker)]
    moments = random.Random(6)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starting:
        assert starting.stdin is not None and starting.stdout is not None
        for _ in range(200):
            print(file=starting.stdin, flush=True)
            controller = int(starting.stdout.readline())
            time.sleep(0.005 + 0.02 * moments.random())
            os.kill(controller, signal.SIGKILL)
        starting.stdin.close()
    assert not marked(marker)


def marked(marker: int) -> list[str]:
    """Return the processes of jails with this CPU limit that are there, after some grace."""
    deadline = time.monotonic() + 10
    while True:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has just ended
                if f", {marker}, " in (process / "cmdline").read_text():
                    found.append(process.name)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def test_small_processes_are_spared_however_little_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_free", lambda: 0)
    monkeypatch.setattr(memory, "SPARED_BYTES", 61 << 20)
    made = play(executor(evolve(QUICK, memory_mb=256), KIND), {HOLDER: 3})
    assert {t.outcome for t in made["holder"]} == {Outcome.PASS}


def test_the_free_memory_is_the_machines_or_what_the_container_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 4000 kB\n")
    (tmp_path / "self/cgroup").write_text("1:cpu:/x\n0::/box\n")
    box = tmp_path / "box"
    box.mkdir()
    (box / "memory.current").write_text("3000000\n")
    (box / "memory.stat").write_text("anon 2000000\ninactive_file 500000\n")
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    for most, free in (("max\n", 4000 << 10), ("4000000\n", 1_500_000), ("1000\n", 0)):
        (box / "memory.max").write_text(most)
        assert memory._free() == free
    (tmp_path / "self/cgroup").write_text("1:cpu:/x\n")
    assert memory._free() == 4000 << 10


def test_the_kernel_would_kill_an_episode_before_the_controller() -> None:
    async def main() -> list[int]:
        async with open_jail(BASE.source, QUICK, KIND) as jail:
            episode = await jail.episode({"letters": "abc"}, [], "s")
            assert isinstance(await episode.receive(), ChatRequest)
            files = [Path(f"/proc/{p}/oom_score_adj") for p in descendants(os.getpid())]
            values = [int(file.read_text()) for file in files]
            await episode.close()
            return values

    before = int(Path("/proc/self/oom_score_adj").read_text())
    found = asyncio.run(main())
    assert found.count(1000) >= 2  # the zygote and its episode
    assert int(Path("/proc/self/oom_score_adj").read_text()) == before < 1000


def test_process_ids_begin_at_a_random_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zygote.random.SystemRandom, "expovariate", lambda self, rate: 50.9)
    numbers = []
    for _ in range(2):
        with subprocess.Popen(["true"]) as process:
            numbers.append(process.pid)
        if len(numbers) == 1:
            zygote._use_up_process_ids()
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    assert (numbers[1] - numbers[0]) % most > 50


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("where", ["load", "episode"])
def test_a_jail_that_breaks_is_tried_once_more_and_then_not_scored(
    where: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The siblings under another harness go on."""
    left = times
    load, start = Jail.load, Jail.episode

    async def broken_load(self: Jail, source: str) -> None:
        nonlocal left
        if source == HOLDER.source and left:
            left -= 1
            raise JailError("jail: it did not start (test)")
        await load(self, source)
        self.source = source  # type: ignore[attr-defined]

    async def broken_start(self: Jail, task: Json, tools: list[Json], seed: str) -> Any:
        nonlocal left
        if self.source == HOLDER.source and task == first and left:  # type: ignore[attr-defined]
            left -= 1
            raise JailError("jail: it did not start (test)")
        return await start(self, task, tools, seed)

    domain = toy(QUICK)
    first = domain.environment(domain.split("weight")[0]).view()
    runner = executor(evolve(QUICK, memory_mb=256), KIND)
    monkeypatch.setattr(Jail, "load", broken_load if where == "load" else named(load))
    if where == "episode":
        monkeypatch.setattr(Jail, "episode", broken_start)
    made = play(runner, {HOLDER: 2, BASE: 3})
    assert {t.outcome for t in made["base"]} == {Outcome.PASS}
    lost = [t for t in made["holder"] if t.outcome is Outcome.NOT_SCORED]
    assert len(lost) == (0 if times == 1 else 2 if where == "load" else 1)
    assert {t.reason for t in lost} <= {"jail: it did not start (test)"}


def named(load: Any) -> Any:
    """Return ``Jail.load`` that also remembers the source."""

    async def remember(self: Jail, source: str) -> None:
        await load(self, source)
        self.source = source  # type: ignore[attr-defined]

    return remember
