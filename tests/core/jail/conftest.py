"""Fixtures for both kinds of jail, and a small trusted side that answers everything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from whale_core.errors import InputError
from whale_core.jail import ChatRequest, Ended, Finished, Jail, ToolRequest, open_jail, probe
from whale_core.roles import Limits

TEMPLATE = """
from whale_harness import BaseHarness, Reply, ToolError, fill

class Harness(BaseHarness):
    async def run(self, task, model, env):
{body}
"""

Outcome = Finished | Ended
Run = Callable[..., Outcome]


def harness(body: str) -> str:
    """Return a harness whose ``run`` has ``body`` (at column 0)."""
    lines = body.strip("\n").splitlines()
    return TEMPLATE.format(body="\n".join(" " * 8 + line for line in lines))


@pytest.fixture(params=["bubblewrap", "process"])
def kind(request: pytest.FixtureRequest) -> str:
    try:
        return probe(request.param)
    except InputError as error:
        pytest.skip(str(error))


async def play(jail: Jail, task: Any = None, seed: str = "seed") -> Outcome:
    """Run an episode, answering chats with their number and tools with their arguments."""
    episode = await jail.episode(task, [{"name": "echo"}], seed)
    try:
        call = 0
        while True:
            event = await episode.receive()
            if isinstance(event, ChatRequest):
                await episode.reply_chat(f"reply {call}", "end", call)
                call += 1
            elif isinstance(event, ToolRequest):
                if event.name == "echo":
                    await episode.reply_tool(dict(event.arguments))
                else:
                    await episode.reply_tool_error(f"no tool {event.name}")
            else:
                return event
    finally:
        await episode.close()


@pytest.fixture
def run(kind: str) -> Run:
    """Return a function that runs one episode of a harness body in a jail of its own."""

    def run_body(body: str, task: Any = None, **limits: Any) -> Outcome:
        async def main() -> Outcome:
            async with open_jail(harness(body), Limits(**limits), kind) as jail:
                return await play(jail, task)

        return asyncio.run(main())

    return run_body


@pytest.fixture
def body_of() -> Callable[[str], str]:
    """Return the function that makes a harness of a body."""
    return harness


@pytest.fixture
def player() -> Callable[..., Any]:
    """Return ``play``."""
    return play
