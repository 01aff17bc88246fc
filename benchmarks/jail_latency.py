"""Measures the jail: boot, time per episode, parent CPU per message.

Run as ``python benchmarks/jail_latency.py [bubblewrap | process] [episodes] [concurrent]``.
"""

from __future__ import annotations

import asyncio
import sys
import time

from whale_core.jail import ChatRequest, Ended, Jail, open_jail, probe
from whale_core.roles import Limits

MESSAGES = 64
METHODS = 60  # makes a harness of about 300 lines
SOURCE = "from whale_harness import BaseHarness\nclass Harness(BaseHarness):\n"
SOURCE += "".join(
    f"    def step_{index}(self, text):\n"
    f"        parts = [part.strip() for part in text.split({index})]\n"
    f"        if len(parts) > {index}:\n"
    f"            return {{'index': {index}, 'parts': parts[:{index}]}}\n"
    f"        return f'{{parts!r}} at {index}'\n"
    for index in range(METHODS)
)
SOURCE += """
    async def run(self, task, model, env):
        messages = [{"role": "user", "content": "x" * 1500}]
        for _ in range(task["calls"]):
            reply = await model.chat(messages)
        return reply.text
"""


async def episode(jail: Jail, calls: int) -> None:
    """Run one episode to its end, answering at once."""
    running = await jail.episode({"calls": calls}, [], "seed")
    event = await running.receive()
    call = 0
    while isinstance(event, ChatRequest):
        await running.reply_chat("a reply of some twenty characters", "end", call)
        call += 1
        event = await running.receive()
    if isinstance(event, Ended):
        raise SystemExit(f"an episode ended with {event.reason}")
    await running.close()


async def main(kind: str, episodes: int, concurrent: int) -> None:
    """Print the figures."""
    began = time.perf_counter()
    kind = probe(kind)
    print(f"probe                     {1e3 * (time.perf_counter() - began):8.1f} ms ({kind})")
    began = time.perf_counter()
    async with open_jail(SOURCE, Limits(model_calls=MESSAGES), kind) as jail:
        print(f"boot and load             {1e3 * (time.perf_counter() - began):8.1f} ms")

        began, spent = time.perf_counter(), time.process_time()
        for _ in range(episodes):
            await episode(jail, 1)
        wall = 1e3 * (time.perf_counter() - began) / episodes
        spent = 1e3 * (time.process_time() - spent) / episodes
        print(f"episode, one by one       {wall:8.2f} ms, {spent:.2f} ms of parent CPU")

        began = time.perf_counter()
        slots = asyncio.Semaphore(concurrent)

        async def limited() -> None:
            async with slots:
                await episode(jail, 1)

        await asyncio.gather(*(limited() for _ in range(episodes)))
        wall = 1e3 * (time.perf_counter() - began) / episodes
        print(f"episode, {concurrent:4d} at a time   {wall:8.2f} ms")

        began, spent = time.perf_counter(), time.process_time()
        rounds = max(1, episodes // 20)
        for _ in range(rounds):
            await episode(jail, MESSAGES)
        wall = 1e3 * (time.perf_counter() - began) / (rounds * MESSAGES)
        spent = 1e3 * (time.process_time() - spent) / (rounds * MESSAGES)
        print(f"message of 1.5 kB         {wall:8.3f} ms, {spent:.3f} ms of parent CPU")


if __name__ == "__main__":
    given = dict(enumerate(sys.argv[1:]))
    asyncio.run(main(given.get(0, "auto"), int(given.get(1, 400)), int(given.get(2, 300))))
