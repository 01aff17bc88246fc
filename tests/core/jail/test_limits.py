"""A harness that misbehaves ends its own episode, with a reason, and nothing else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whale_core.jail import ChatRequest, Ended, Finished, open_jail, probe
from whale_core.roles import Limits

Run = Callable[..., Finished | Ended]

FORGE = """
import os
def say(text):
    os.write(3, text.encode() + b"\\n")
def hear():
    return os.read(3, 1 << 16)
CHAT = (
    '"chat":{"messages":[{"role":"user","content":"x"}],'
    '"max_tokens":null,"stop":[],"tools":null}'
)
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('first\\nsecond')", "error: ValueError: first"),
        ("raise KeyError('x' * 500)", "error: KeyError: '" + "x" * 500),
        ("raise ValueError('\\x1b[31m red')", "error: ValueError:  [31m red"),
        ("import sys\nsys.exit(3)", "error: SystemExit: 3"),
        ("return 7", "error: TypeError: run returned int, not str"),
        ("return '\\ud800'", "error: UnicodeEncodeError: "),
        ("def down(n):\n    return down(n + 1)\ndown(0)", "error: RecursionError: maximum"),
        ("await model.chat([{'role': 'user'}])", "error: TypeError: a message has the keys"),
        ("await model.chat([], stop='x')", "error: TypeError: stop must be a sequence"),
        ("await model.chat([], stop=[''])", "error: ValueError: stop takes at most 16"),
        ("await model.chat([], max_tokens=0)", "error: ValueError: max_tokens must be"),
        ("await model.chat([])", "error: ValueError: messages must not be empty"),
        ("await env.call('nothing')", "error: ToolError: no tool nothing"),
        (
            "class Odd(Exception):\n    def __str__(self):\n        raise Odd()\nraise Odd()",
            "error: Odd: ",
        ),
        ("import os\nos._exit(0)", "died"),
        ("import os\nos._exit(78)", "died"),
        ("import os\nos.abort()", "died"),
        ("import os, time\nos.close(3)\nos.dup2(0, 3)\nreturn 'x'", "died"),
    ],
)
def test_an_end_without_an_answer(run: Run, body: str, reason: str) -> None:
    outcome = run(body)
    assert isinstance(outcome, Ended)
    assert outcome.reason.startswith(reason[:200])
    assert len(outcome.reason) <= len("error: ") + 200
    assert "\n" not in outcome.reason
    assert not outcome.infrastructure


def test_deep_recursion_without_pythons_own_limit(run: Run) -> None:
    outcome = run(
        """
import sys
sys.setrecursionlimit(10**9)
nested = []
for _ in range(10**6):
    nested = [nested]
repr(nested)
"""
    )
    assert isinstance(outcome, Ended)
    assert outcome.reason in ("died", "memory") or outcome.reason.startswith("error: Recursion")


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
    ],
)
def test_a_loop_ends_at_the_cpu_limit(run: Run, body: str) -> None:
    assert run(body, cpu_seconds=1.0) == Ended("cpu")


def test_a_memory_bomb_ends_at_the_memory_limit(run: Run) -> None:
    body = "parts = []\nwhile True: parts.append(bytearray(1 << 24))"
    assert run(body, memory_mb=200) == Ended("memory")


def test_a_sleeper_stalls(run: Run) -> None:
    began = time.monotonic()
    assert run("import time\ntime.sleep(60)", wall_seconds=0.5) == Ended("stalled")
    assert time.monotonic() - began < 10


def test_waiting_for_the_trusted_side_is_not_a_stall(
    kind: str, body_of: Callable[[str], str]
) -> None:
    source = body_of(
        "import time\nfor _ in range(2):\n"
        "    await model.chat([{'role': 'user', 'content': 'x'}])\nreturn 'done'"
    )

    async def main() -> None:
        async with open_jail(source, Limits(wall_seconds=1.0), kind) as jail:
            episode = await jail.episode({}, [], "s")
            for call in range(2):
                assert isinstance(await episode.receive(), ChatRequest)
                await asyncio.sleep(1.2)
                await episode.reply_chat("x", "end", call)
            time.sleep(1.2)  # the trusted side's own loop is busy; the answer has long arrived
            assert await episode.receive() == Finished("done")
            await episode.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "body",
    [
        "await model.chat([{'role': 'user', 'content': 'x' * 300_000}])",
        "await env.call('x' * 300_000)",
        "return 'x' * 300_000",
        FORGE + "while True: os.write(3, b'x' * 65536)",
    ],
)
def test_a_flood_ends_at_the_byte_limit(run: Run, body: str) -> None:
    assert run(body) == Ended("bytes")


def test_bytes_are_limited_over_the_whole_episode(run: Run) -> None:
    body = "while True: await env.call('echo', text='x' * 9_000)"
    assert run(body, message_bytes=10_000, model_calls=1, env_calls=1) == Ended("bytes")


FORGED_LINES = [
    "garbage",
    "\xff",
    "[]",
    "{}",
    '{"n":0}',
    '{"n":0,"finished":"x","error":"y"}',
    '{"n":1,"finished":"x"}',
    '{"n":true,"finished":"x"}',
    '{"n":0.0,"finished":"x"}',
    '{"n":0,"finished":7}',
    '{"n":0,"finished":"\\ud800"}',
    '{"n":0,"infrastructure":"x"}',
    '{"n":0,"chat":{"messages":[]}}',
    '{"n":0,"tool":{"name":"echo","arguments":[]}}',
    '{"n":0,"tool":{"name":"echo","arguments":{"x":NaN}}}',
    '{"n":0,"tool":{"name":"echo","arguments":{"x":1e999}}}',
    '{"n":0,"tool":{"name":"echo","arguments":{"x":' + "[" * 40 + "]" * 40 + "}}}",
    "[" * 90_000,
    '{"n":0,"tool":{"name":"echo","arguments":{"x":' + "9" * 9_000 + "}}}",
    '{"n":0,' + '"chat":{"messages":[{"role":"user","content":"x"}],"max_tokens":0,'
    '"stop":[],"tools":null}}',
    '{"n":0,' + '"chat":{"messages":[{"role":"user","content":"x"}],"max_tokens":9,'
    '"stop":[""],"tools":null}}',
    '{"n":0,' + '"chat":{"messages":[{"role":"root","content":"x"}],"max_tokens":9,'
    '"stop":[],"tools":null}}',
    '{"n":0,' + '"chat":{"messages":[{"role":"assistant","content":"x","call":0}],'
    '"max_tokens":9,"stop":[],"tools":null}}',
    "ready",
]


def test_a_line_the_sdk_would_not_send_ends_the_episode(
    body_of: Callable[[str], str], player: Callable[..., Any]
) -> None:
    source = body_of(FORGE + "os.write(3, task.encode('latin-1') + b'\\n')\nhear()")

    async def main() -> list[Any]:
        async with open_jail(source, Limits(), probe("process")) as jail:
            return [await player(jail, line) for line in FORGED_LINES]

    for line, outcome in zip(FORGED_LINES, asyncio.run(main()), strict=True):
        assert outcome == Ended("protocol"), line[:100]


def test_replayed_pipelined_and_false_handle_lines_end_the_episode(run: Run) -> None:
    once = FORGE + "say('{\"n\":0,' + CHAT + '}')\n"
    assert run(once + "hear()\nsay('{\"n\":0,' + CHAT + '}')\nhear()") == Ended("protocol")
    two = FORGE + "say('{\"n\":0,' + CHAT + '}\\n{\"n\":1,' + CHAT + '}')\nhear()\nhear()"
    assert run(two) == Ended("protocol")
    body = """
reply = await model.chat([{"role": "user", "content": "x"}])
await model.chat([Reply("made up", "end", reply.call + 1)])
"""
    assert run(body) == Ended("protocol")


def test_a_harness_that_does_not_read_its_answer_stalls(
    kind: str, body_of: Callable[[str], str]
) -> None:
    source = body_of(FORGE + "say('{\"n\":0,' + CHAT + '}')\nimport time\ntime.sleep(60)")

    async def main() -> None:
        async with open_jail(source, Limits(wall_seconds=0.5), kind) as jail:
            episode = await jail.episode({}, [], "s")
            assert isinstance(await episode.receive(), ChatRequest)
            await episode.reply_chat("x" * 5_000_000, "end", 0)
            assert await episode.receive() == Ended("stalled")

    asyncio.run(main())


@pytest.mark.parametrize("name", ["echo", "nothing"])
def test_what_tools_are_sent_is_limited_in_all(run: Run, name: str) -> None:
    """It is kept, and a list of lists takes twenty times its bytes."""
    body = f"""
for _ in range(3):
    try:
        await env.call({name!r}, list=[[]] * 800)  # 3,200 bytes
    except ToolError:
        pass
return "done"
"""
    assert run(body, message_bytes=10_000) == Finished("done")
    assert run(body, message_bytes=9_000) == Ended("bytes")


def test_a_machine_that_stood_still_is_no_stall(kind: str, body_of: Callable[[str], str]) -> None:
    """A paused container, say: controller and jail stop, the clock does not."""
    source = body_of("import time\ntime.sleep(0.5)\nreturn 'done'")

    async def main() -> Any:
        async with open_jail(source, Limits(wall_seconds=2.0), kind) as jail:
            episode = await jail.episode(None, [], "seed")
            await asyncio.sleep(0.1)
            ours, others = os.getpid(), " ".join(map(str, descendants(os.getpid())))
            freeze = f"kill -STOP {others} {ours}; sleep 2.5; kill -CONT {ours}; sleep 0.2; "
            thawed = subprocess.Popen(["sh", "-c", f"{freeze} kill -CONT {others}"])
            try:
                return await episode.receive()
            finally:
                thawed.wait()

    assert asyncio.run(main()) == Finished("done")


def descendants(parent: int) -> list[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [pid for child in map(int, listed) for pid in (child, *descendants(child))]
