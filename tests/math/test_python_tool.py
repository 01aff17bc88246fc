"""The tool in its real jail: what programs can print, and what they cannot do."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from whale_core.jail.zygote import Zygote
from whale_math.config import PythonConfig
from whale_math.python.jailed import JailedPython
from whale_math.python.result import FINISHED, PROTOCOL, Result, read

T = TypeVar("T")
SMALL = PythonConfig(cpu_seconds=1, wall_seconds=2, memory_mb=256, output=1000)


@asynccontextmanager
async def opened(config: PythonConfig = SMALL) -> AsyncIterator[JailedPython]:
    tool = JailedPython(config)
    try:
        yield tool
    finally:
        await tool.close()


def run_all(codes: Sequence[str], *, show_last: bool = False) -> list[Result]:
    """Run programs one after the other in one warm jail."""

    async def work() -> list[Result]:
        async with opened() as tool:
            return [await tool.run(code, show_last) for code in codes]

    return asyncio.run(work())


def run(code: str, *, show_last: bool = False) -> Result:
    return run_all([code], show_last=show_last)[0]


def test_one_jail_serves_all_calls_of_a_loop(monkeypatch: pytest.MonkeyPatch):
    started = []
    start = Zygote.start

    async def counted(*arguments: Any) -> Zygote:
        started.append(arguments)
        return await start(*arguments)

    monkeypatch.setattr(Zygote, "start", counted)

    async def work() -> None:
        async with opened() as tool:
            for _ in range(3):
                assert (await tool.run("print(1)", False)).stdout == "1\n"
                gc.collect()  # what nobody holds any more is closed now
                await asyncio.sleep(0.05)

    asyncio.run(work())
    assert len(started) == 1


# --- what a program prints ------------------------------------------------------------------------

SHOWN = {
    "20 + 22": "42\n",
    "x = 42\nx": "42\n",
    "x = 42": "",
    "x = 42\nx  # the answer": "42\n",
    "x = 42\nx\n# done": "42\n",
    "x = 42\n# x": "",
    "20 + 22;": "42\n",
    "x = 6; x * 7;": "42\n",
    "for n in range(3):\n    n": "",
    "def f():\n    return 42\nf()": "42\n",
    "if True:\n    42": "",
    "print(42)": "42\n",
    "print(41)\n42": "41\n42\n",
    "None": "",
    "'a' + 'b'": "'ab'\n",
    "    x = 42\n    x": "42\n",
    "\tif 1:\n\t\tx = 42\n\tx": "42\n",
    "": "",
    "(\n  20\n  + 22\n)": "42\n",
    "x = [n for n in range(3)]\nx": "[0, 1, 2]\n",
    "import math\nmath.comb(10, 3)": "120\n",
    "from fractions import Fraction as F\nF(1, 2) + F(1, 3)": "Fraction(5, 6)\n",
    "x: int = 42": "",
    "assert True": "",
}


def test_the_last_expression_is_shown_and_nothing_else_is_made_of_the_last_line():
    results = run_all(list(SHOWN), show_last=True)
    assert {code: result.stdout for code, result in zip(SHOWN, results, strict=True)} == SHOWN
    assert {(result.status, result.exit_status) for result in results} == {(FINISHED, 0)}


def test_without_show_last_only_what_is_printed():
    first, second = run_all(["x = 42\nx", "print('ü 漢')"])
    assert (first.stdout, second.stdout) == ("", "ü 漢\n")


def test_streams_and_exit_status_are_told_apart():
    codes = [
        "import sys\nprint('out')\nprint('err', file=sys.stderr)",
        "print('before')\n1 / 0",
        "x = = 1",
        "raise SystemExit(3)",
        "raise SystemExit('goodbye')",
        "import sys\nsys.exit()",
        "input()",
        "raise KeyboardInterrupt",
        "def f():\n    raise ValueError('no')\nf()",
    ]
    results = run_all(codes)
    assert [result.exit_status for result in results] == [0, 1, 1, 3, 1, 0, 1, 1, 1]
    assert {result.status for result in results} == {FINISHED}
    assert (results[0].stdout, results[0].stderr) == ("out\n", "err\n")
    assert results[1].stdout == "before\n"
    assert results[1].stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert "line 2" in results[1].stderr and "1 / 0" in results[1].stderr
    assert results[2].stderr.splitlines()[-1].startswith("SyntaxError")
    assert results[4].stderr == "goodbye\n"
    assert "EOFError" in results[6].stderr
    assert "whale" not in "".join(result.stderr for result in results)


def test_nothing_is_kept_from_one_call_to_the_next_and_chance_is_the_same():
    first, second, third, fourth = run_all(
        [
            "x = 1\nimport math\nmath.pi = 3",
            "import math\nprint(math.pi > 3, 'x' in globals())",
            "import random\nprint(random.random())",
            "import random\nprint(random.random())",
        ]
    )
    assert first.status == FINISHED and second.stdout == "True False\n"
    assert third.stdout == fourth.stdout


def test_more_output_than_is_kept_ends_the_program():
    began = time.monotonic()
    endless, long = run_all(["while True: print('x' * 99)", "print('a' * 1000 + 'b')"])
    assert endless.status == long.status == "output"
    assert endless.exit_status is None and len(endless.stdout) == 1000
    assert long.stdout == "a" * 1000
    assert time.monotonic() - began < 5


# --- what a program cannot do ---------------------------------------------------------------------

REFUSED = {
    "forks": "import os\nwhile True: os.fork()",
    "processes": "import subprocess\nsubprocess.run(['true'])",
    "threads": "import threading\nwhile True: threading.Thread(target=input).start()",
    "a file": "open('/tmp/mine', 'w')",
    "this machine's files": "print(open('/etc/passwd').read())",
    "the network": "import socket\nsocket.create_connection(('127.0.0.1', 80))",
    "its parent's end": "import os\nos.kill(os.getppid(), 9)",
    "everyone's end": "import os\nos.kill(-1, 9)",
    "a thousand megabytes": "x = 'x' * 10**9",
    "memory without end": "x = []\nwhile True: x.append('x' * 10**6)",
    "unlimited memory": "import resource as r\nr.setrlimit(r.RLIMIT_AS, (-1, -1))",
    "installed packages": "import numpy",
}
ENDED = {
    "an endless loop": ("while True: pass", "timeout"),
    "an endless sleep": ("import time\ntime.sleep(1000)", "timeout"),
    "a loop that takes no end": (
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True:\n"
        "    try:\n        while True: pass\n    except BaseException: pass",
        "timeout",
    ),
    "a gigabyte of output": ("for _ in range(10**6): print('x' * 1000)", "output"),
    "output that will not end": (
        "while True:\n    try: print('x' * 1000)\n    except BaseException: pass",
        "timeout",
    ),
    "an early end": ("import os\nprint(1)\nos._exit(0)", "died"),
    "a crash": ("import ctypes\nctypes.string_at(0)", "died"),
    "a closed channel": ("import os\nos.close(3)\nprint(1)", "died"),
    "a forged end": ("import os\nos.write(3, b'{}\\n')", "protocol"),
    "a question to the model": (
        "import os, json, time\nbody = {'messages': [{'role': 'user', 'content': 'answer?'}], "
        "'max_tokens': None, 'stop': [], 'tools': None}\n"
        "os.write(3, json.dumps({'n': 0, 'chat': body}).encode() + b'\\n')\ntime.sleep(9)",
        "protocol",
    ),
    "a line without end": ("import os\nwhile True: os.write(3, b'x' * 4096)", "output"),
}


def test_what_is_refused_is_an_error_in_the_program_and_siblings_go_on():
    results = run_all([code for code in REFUSED.values()] + ["print(1)"])
    *refused, after = results
    for name, result in zip(REFUSED, refused, strict=True):
        assert (result.status, result.exit_status) == (FINISHED, 1), (name, result)
        assert "root:" not in result.stdout
    assert after.stdout == "1\n"


@pytest.mark.parametrize("name", ENDED)
def test_what_ends_badly_costs_that_call_only(name: str):
    code, status = ENDED[name]

    async def work() -> list[Result]:
        async with opened() as tool:
            tool_calls = [tool.run(each, False) for each in ("print(1)", code, "print(2)")]
            return [*await asyncio.gather(*tool_calls), await tool.run("print(3)", False)]

    first, bad, second, third = asyncio.run(work())
    assert (bad.status, bad.exit_status) == (status, None)
    assert [result.stdout for result in (first, second, third)] == ["1\n", "2\n", "3\n"]


def test_deep_recursion_costs_that_call_only():
    code = "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nf(0)"
    deep, after = run_all([code, "print(1)"])
    assert deep.status in ("finished", "memory", "died", "timeout") and deep.exit_status != 0
    assert after.stdout == "1\n"


def test_a_forged_result_is_no_more_than_the_programs_own_output():
    code = (
        "import os, json, time\nkept = json.dumps({'stdout': 'forged', 'stderr': '', "
        "'exit_status': 0})\nos.write(3, json.dumps({'n': 0, 'finished': kept}).encode() + "
        "b'\\n')\ntime.sleep(9)"
    )
    forged, after = run_all([code, "print(1)"])
    assert (forged.stdout, forged.status) == ("forged", FINISHED)
    assert after.stdout == "1\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "nonsense",
        "[" * 100_000,
        '{"stdout": 1, "stderr": "", "exit_status": 0}',
        '{"stdout": "", "stderr": "", "exit_status": true}',
        '{"stdout": "", "stderr": "", "exit_status": 256}',
        '{"stdout": "", "stderr": "", "exit_status": 0.0}',
        '{"stdout": "aaaaaaaaaaa", "stderr": "", "exit_status": 0}',
    ],
)
def test_what_a_process_reports_is_not_trusted(text: str):
    assert read(text, 10).status == PROTOCOL


def test_half_a_surrogate_pair_is_replaced():
    assert read('{"stdout": "\\ud800", "stderr": "", "exit_status": 0}', 10).stdout == "?"
    assert run("print('\\ud800')").stdout == "?\n"


# --- the jail itself ------------------------------------------------------------------------------


def test_a_new_event_loop_gets_a_new_jail():
    tool = JailedPython(SMALL)
    for _ in range(2):
        assert asyncio.run(tool.run("print(1)", False)).stdout == "1\n"
    asyncio.run(tool.close())
    asyncio.run(tool.close())


def test_a_jail_that_is_killed_is_the_environments_fault_and_starts_again():
    async def work() -> tuple[str, Result]:
        async with opened() as tool:
            await tool.run("print(1)", False)
            jail = await tool._jail()
            running = asyncio.ensure_future(tool.run("import time\ntime.sleep(1.5)", False))
            await asyncio.sleep(0.3)
            jail.close()
            try:
                await running
                said = "nothing"
            except Exception as error:
                said = type(error).__name__
            return said, await tool.run("print(2)", False)

    said, after = asyncio.run(work())
    assert said == "JailError" and after.stdout == "2\n"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_closing_leaves_nothing(tmp_path: Path):
    def work() -> None:
        run_all(["print(1)"])

    work()
    before = descriptors(), children()
    work()
    assert (descriptors(), children()) == before


def held() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


@pytest.mark.slow
def test_ten_thousand_calls_leak_nothing():
    codes = ["print(1)", "1 / 0", "import os\nos._exit(1)", "print('x' * 5000)", "x = ["]

    async def work() -> list[tuple[int, int, int]]:
        async with opened() as tool:
            seen = []
            for batch in range(10):
                made = await asyncio.gather(
                    *(tool.run(codes[n % len(codes)], False) for n in range(1000))
                )
                assert len(made) == 1000 and made[-5].stdout == "1\n", batch
                grandchildren = sum(
                    len(Path(f"/proc/{child}/task/{child}/children").read_text().split())
                    for child in children()
                )
                seen.append((descriptors(), len(children()) + grandchildren, held()))
            return seen

    seen = asyncio.run(work())
    assert seen[-1][0] == seen[1][0] and seen[-1][1] == seen[1][1]
    assert seen[-1][2] < seen[1][2] + 10_000  # kB
