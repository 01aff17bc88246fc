"""Ordinary episodes: what goes in and out, concurrency, separation, determinism."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from whale_core.jail import ChatRequest, Ended, Finished, ToolRequest, open_jail
from whale_core.records import Message
from whale_core.roles import Limits

Run = Callable[..., Finished | Ended]
LIMITS = Limits()


def test_chat_tool_and_handles_pass_through(kind: str, body_of: Callable[[str], str]) -> None:
    source = body_of(
        """
question = {"role": "user", "content": task["question"]}
first = await model.chat([question], max_tokens=7, stop=["\\n"])
again = [{"role": "system", "content": "é"}, first, {**first.message(), "content": "edited"}]
second = await model.chat(again, tools=[{"name": "look"}])
seen = await env.call("look", at=[1, {"x": None}])
try:
    await env.call("break")
except ToolError as error:
    return f"{second.text}|{second.finish_reason}|{seen}|{error}|{env.tools}"
"""
    )

    async def main() -> None:
        async with open_jail(source, LIMITS, kind) as jail:
            episode = await jail.episode({"question": "why?"}, [{"name": "look"}], "s")
            event = await episode.receive()
            assert event == ChatRequest((Message("user", "why?"),), 7, ("\n",), None)
            with pytest.raises(RuntimeError, match="not been answered"):
                await episode.receive()
            with pytest.raises(RuntimeError, match="no ToolRequest"):
                await episode.reply_tool(1)
            await episode.reply_chat("be\u2028cause", "stop", 4)
            event = await episode.receive()
            assert event == ChatRequest(
                (
                    Message("system", "é"),
                    Message("assistant", "be\u2028cause", 4),
                    Message("assistant", "edited", 4),
                ),
                None,
                (),
                [{"name": "look"}],
            )
            await episode.reply_chat("two", "length", 5)
            assert await episode.receive() == ToolRequest("look", {"at": [1, {"x": None}]})
            await episode.reply_tool({"ok": [True]})
            assert await episode.receive() == ToolRequest("break", {})
            await episode.reply_tool_error("it is closed")
            done = Finished("two|length|{'ok': [True]}|it is closed|[{'name': 'look'}]")
            assert await episode.receive() == done
            await episode.reply_tool("ignored after the end")
            assert await episode.receive() == done
            await episode.close()
            await episode.close()

    asyncio.run(main())


def test_two_hundred_at_once(
    kind: str, body_of: Callable[[str], str], player: Callable[..., Any]
) -> None:
    source = body_of(
        """
for turn in range(3):
    reply = await model.chat([{"role": "user", "content": str(task)}])
return f"{task} {reply.text}"
"""
    )

    async def main() -> list[Any]:
        async with open_jail(source, LIMITS, kind) as jail:
            return await asyncio.gather(*(player(jail, number) for number in range(200)))

    assert asyncio.run(main()) == [Finished(f"{number} reply 2") for number in range(200)]


def test_several_jails_at_once(
    kind: str, body_of: Callable[[str], str], player: Callable[..., Any]
) -> None:
    async def one(name: str) -> list[Any]:
        async with open_jail(body_of(f"return '{name}' + str(task)"), LIMITS, kind) as jail:
            return await asyncio.gather(*(player(jail, number) for number in range(10)))

    async def main() -> list[list[Any]]:
        return await asyncio.gather(*(one(name) for name in "abc"))

    expected = [[Finished(f"{name}{number}") for number in range(10)] for name in "abc"]
    assert asyncio.run(main()) == expected


def test_episodes_share_nothing(
    kind: str, body_of: Callable[[str], str], player: Callable[..., Any]
) -> None:
    source = "import json, whale_harness\nSEEN = []\n" + body_of(
        """
SEEN.append(task)
json.seen = getattr(json, "seen", 0) + 1
whale_harness.seen = getattr(whale_harness, "seen", 0) + 1
return f"{SEEN} {json.seen} {whale_harness.seen}"
"""
    )

    async def main() -> list[Any]:
        async with open_jail(source, LIMITS, kind) as jail:
            return [await player(jail, number) for number in range(3)]

    assert asyncio.run(main()) == [Finished(f"[{number}] 1 1") for number in range(3)]


def test_hashes_and_random_numbers_repeat_and_follow_the_seed(
    kind: str, body_of: Callable[[str], str], player: Callable[..., Any]
) -> None:
    source = body_of(
        """
import random
return f"{hash('x')} {list({'a', 'b', 'c', 'd', 'e'})} {random.random()}"
"""
    )

    async def main(seed: str) -> Any:
        async with open_jail(source, LIMITS, kind) as jail:
            return await player(jail, None, seed)

    first = asyncio.run(main("one"))
    assert isinstance(first, Finished)
    assert asyncio.run(main("one")) == first
    assert asyncio.run(main("two")) != first


def test_gathered_calls_are_served_in_order(run: Run) -> None:
    outcome = run(
        """
import asyncio
async def ask(name):
    return f"{name}:{(await model.chat([{'role': 'user', 'content': name}])).text}"
return " ".join(await asyncio.gather(*(ask(name) for name in "abc")))
"""
    )
    assert outcome == Finished("a:reply 0 b:reply 1 c:reply 2")


def test_printing_does_not_disturb_the_protocol(run: Run) -> None:
    outcome = run(
        """
import os, sys, logging
print("x" * 100_000, flush=True)
print("y", file=sys.stderr, flush=True)
os.write(1, b"{}\\n")
os.write(2, b"{}\\n")
logging.warning("z")
return "done"
"""
    )
    assert outcome == Finished("done")


def test_long_messages_pass_both_ways(kind: str, body_of: Callable[[str], str]) -> None:
    source = body_of(
        """
big = await env.call("get")
reply = await model.chat([{"role": "user", "content": big[:190_000]}])
return str(len(big))
"""
    )

    async def main() -> None:
        async with open_jail(source, LIMITS, kind) as jail:
            episode = await jail.episode({}, [], "s")
            assert await episode.receive() == ToolRequest("get", {})
            await episode.reply_tool("é" * 3_000_000)
            event = await episode.receive()
            assert isinstance(event, Ended)  # 190,000 characters are 380,000 bytes
            assert event.reason == "bytes"

    asyncio.run(main())


def test_standard_library_is_usable(run: Run) -> None:
    outcome = run(
        """
import csv, datetime, decimal, difflib, fractions, hashlib, heapq, html, io, itertools, logging
import pathlib, statistics, string, textwrap, unicodedata, urllib.parse, uuid, zlib, bisect, copy
import asyncio, time, tempfile, enum, dataclasses, operator, pprint, secrets, struct, ast
await asyncio.sleep(0.001)
time.sleep(0.001)
hashlib.sha256(b"x").hexdigest()
uuid.uuid4()
await asyncio.wait_for(asyncio.sleep(0), 1)
return str(statistics.mean([1, 2, 3])) + str(datetime.date(2020, 1, 1))
"""
    )
    assert outcome == Finished("22020-01-01")
